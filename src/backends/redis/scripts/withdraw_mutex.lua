-- SPDX-License-Identifier: MIT
-- Releases a mutex or a fair lock, or leaves its queue. A release grants the lock to
-- the next waiter in the same script.
--
-- KEYS  as take_mutex
-- ARGV  owner, kind (m or f)
-- reply 1 withdrawn, 0 neither held nor queued

-- uses: mutex_keys
-- pastes: base, own

local me, kind = unpack(ARGV)

-- A hash without fields is no key: this is the release.
local released = redis.pcall('HDEL', K.name, me) == 1

-- The common cases: the first waiter is granted the lock, or no client waits. In any
-- other case the waiter is put back, and the release goes on below.
if released and kind == 'm' then
    local waiter, r, run = mutex_next()
    if waiter then
        run = run_restart(run)
    end
    if waiter and run < RUN_MAX then
        local sent = queue_pass(waiter, r, run)
        if sent then
            call('HDEL', K.info, me)
            return 1
        end
    elseif waiter then
        mutex_put_back(waiter)
    elseif call('EXISTS', K.fair) == 0 then
        mutex_free()
        return 1
    end
end

-- uses: base, queue, own, mutex

if released then
    mutex_release(me, kind)
    return 1
end

local found
if kind == 'f' then
    found = fair_withdraw(me)
else
    found = dequeue(me)
end
tidy()
return found
