-- SPDX-License-Identifier: MIT
-- uses: base, latch
-- Counts a latch down; once per request. Redisson's clients must get '0' exactly once,
-- when zero is reached.
--
-- KEYS  name, INFO, QUEUE, channel, opened, done
-- ARGV  by, request id (the done key contains it)
-- reply what is left

K.name, K.info, K.queue, K.channel, K.opened, K.done = unpack(KEYS)
local by = tonumber(ARGV[1])

local before = call('GET', K.done)
if before then
    return tonumber(before)
end
local left = latch_read()
if left == false then
    return mismatch('not a latch')
elseif not left then
    return 0
elseif left > by then
    left = call('DECRBY', K.name, by)
    if call('HEXISTS', K.info, '#kind') == 1 then
        latch_note()
    end
else
    left = 0
    call('DEL', K.name)
    call('PUBLISH', K.channel, '0')
    latch_open()
end
call('SET', K.done, left, 'PX', ANSWER_MS)
return left
