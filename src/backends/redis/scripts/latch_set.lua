-- SPDX-License-Identifier: MIT
-- uses: base, latch
-- Sets a latch that is not counting; once per request.
--
-- KEYS  name, INFO, QUEUE, channel, opened, done
-- ARGV  count, request id (the done key contains it)
-- reply 1 set (also by this request before), 0 it is counting

K.name, K.info, K.queue, K.channel, K.opened, K.done = unpack(KEYS)
local count = ARGV[1]

if call('EXISTS', K.done) == 1 then
    return 1
end
local left = latch_read()
if left == false then
    return mismatch('not a latch')
elseif left then
    return 0
end
-- Waiters of the previous latch, which Redisson opened.
latch_open()
call('SET', K.name, count)
latch_note()
call('SET', K.done, 1, 'PX', ANSWER_MS)
call('PUBLISH', K.channel, '1')
return 1
