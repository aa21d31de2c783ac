-- SPDX-License-Identifier: MIT
-- uses: base, latch
-- Stops waiting for a latch, or deletes the note that it opened for this waiter.
--
-- KEYS  as latch_wait
-- ARGV  owner
-- reply 1 withdrawn, 0 it was not queued

K.name, K.info, K.queue, K.channel, K.opened = unpack(KEYS)
local me = ARGV[1]

local found = call('LREM', K.queue, 1, me) + call('SREM', K.opened, me)
call('HDEL', K.info, me)
if call('EXISTS', K.name) == 0 and call('EXISTS', K.queue) == 0 then
    call('DEL', K.info)
elseif not call('HGET', K.info, '#kind') then
    tidy()
end
return math.min(found, 1)
