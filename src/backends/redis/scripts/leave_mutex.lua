-- SPDX-License-Identifier: MIT
-- uses: base, queue, mutex
-- Gives a mutex or a fair lock up, or leaves its queue. A release grants to the next
-- waiter in the same breath.
--
-- KEYS  as take_mutex
-- ARGV  owner, kind (m or f)
-- reply 1 it was there and is no more, 0 it was not there

K.name, K.token, K.info, K.queue, K.fair, K.patience, K.channel = unpack(KEYS)
local me, kind = unpack(ARGV)

-- A hash without fields is no key: this is the release.
if redis.pcall('HDEL', K.name, me) == 1 then
    mutex_release(me, kind)
    return 1
end

local found
if kind == 'f' then
    found = fair_leave(me)
else
    found = dequeue(me)
end
tidy()
return found
