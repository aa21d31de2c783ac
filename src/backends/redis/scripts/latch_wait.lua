-- SPDX-License-Identifier: MIT
-- uses: base, queue, latch
-- Waits for a latch to open.
--
-- KEYS  name, INFO, QUEUE, channel, opened
-- ARGV  owner, ttl ms, reserve, inbox, number, details, flags (t: try), kind (l)
-- reply {1} open, {2, -1, place, 1, server ms} queued, {3} not open (try)
--
-- Redisson counts down without a message to our inboxes, so every waiter subscribes to
-- the channel.

K.name, K.info, K.queue, K.channel, K.opened = unpack(KEYS)
local me, ttl, reserve, inbox, number, details, flags, kind = unpack(ARGV)

local left = latch_read()
if left == false then
    return mismatch('not a latch')
elseif not left then
    -- Opened by Redisson: our waiters were not notified yet.
    if call('EXISTS', K.queue) == 1 then
        latch_open()
    elseif call('HGET', K.info, '#kind') == 'l' then
        call('DEL', K.info)
    end
    return { 1 }
elseif call('SISMEMBER', K.opened, me) == 1 then
    return { 1 }
elseif string.find(flags, 't', 1, true) then
    return { 3 }
end
clock()
local mine = record_new(ttl, reserve, inbox, number, details, kind, '1')
local place = enqueue(me, mine, record_read(call('HGET', K.info, me)))
return { 2, -1, place, 1, now }
