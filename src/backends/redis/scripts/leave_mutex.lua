-- SPDX-License-Identifier: MIT
-- uses: base, own
-- Gives a mutex or a fair lock up, or leaves its queue. A release grants to the next
-- waiter in the same breath.
--
-- KEYS  as take_mutex
-- ARGV  owner, kind (m or f)
-- reply 1 it was there and is no more, 0 it was not there

local keys = KEYS
K = { name = keys[1], token = keys[2], info = keys[3], queue = keys[4], fair = keys[5],
    patience = keys[6], channel = keys[7] }
local me, kind = unpack(ARGV)

-- A hash without fields is no key: this is the release.
local released = redis.pcall('HDEL', K.name, me) == 1

-- Mostly the next of QUEUE lives, and it is its turn; or nobody waits.
local heir, r, run
if released and kind == 'm' then
    heir, r, run = mutex_next()
end
if heir then
    local given = run < RUN_MAX and give(heir, r)
    if given then
        mutex_own(heir, r, run + 1)
        call('HDEL', K.info, me)
        return 1
    elseif given == nil or run >= RUN_MAX then
        call('LPUSH', K.queue, heir)
    end
elseif released and call('EXISTS', K.queue, K.fair) == 0 then
    call('DEL', K.info)
    call('PUBLISH', K.channel, '0')
    return 1
end

-- uses: queue, mutex

if released then
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
