-- SPDX-License-Identifier: MIT
-- Releases a mutex or a fair lock, or leaves its queue. A release grants the lock to
-- the next waiter in the same script.
--
-- KEYS  as take_mutex
-- ARGV  owner, kind (m or f)
-- reply 1 withdrawn, 0 neither held nor queued

local call, keys = redis.call, KEYS
local me, kind = unpack(ARGV)

-- A hash without fields is no key: this is the release.
local released = redis.pcall('HDEL', keys[1], me) == 1

-- The common cases: the first waiter of QUEUE is connected and no open round is due, or
-- QUEUE is empty. As in take_mutex they come before the shared parts; in any other case
-- the waiter is put back, and the script goes on.
local listeners -- how many clients of Redisson were notified here of an open round
local waiter = released and kind == 'm' and call('LPOP', keys[4])
if waiter then
    local found = call('HMGET', keys[3], waiter, '#run')
    local ttl, reserve, inbox, number, details = string.match(found[1] or '',
        '^w m 1 (%d+) (%d+) %d+ %d+ %d+ (%S+) (%d+) (.*)$')
    local run = tonumber(found[2]) or 0
    if run >= 8 and call('EXISTS', keys[5]) == 0 then
        listeners = call('PUBLISH', keys[7], '0')
        run = listeners == 0 and 0 or run
    end
    if ttl and run < 8 then
        local time = call('TIME')
        local micros = string.format('%06d', time[2])
        local token, since = time[1] .. micros, time[1] .. string.sub(micros, 1, 3)
        local old = redis.pcall('GETSET', keys[2], reserve == '1' and token or
            string.format('%.0f', token + reserve - 1))
        if not old or type(old) == 'string' and string.find(old, '^%d+$') and
            tonumber(old) < token + 0 then
            call('HSET', keys[1], waiter, 1)
            if redis.pcall('PEXPIRE', keys[1], ttl) ~= 1 then
                -- An ACL forbids PEXPIRE: without a lease the hold would never end.
                call('HDEL', keys[1], waiter)
                call('LPUSH', keys[4], waiter)
                return call('PEXPIRE', keys[1], ttl)
            end
            call('HSET', keys[3], waiter, 'h m 1 ' .. ttl .. ' ' .. reserve .. ' ' ..
                token .. ' ' .. reserve .. ' ' .. since .. ' ' .. inbox .. ' ' ..
                number .. ' ' .. details, '#last', waiter, '#run', run + 1)
            call('HDEL', keys[3], me)
            -- The waiter believes the message, so it is the last step.
            if call('PUBLISH', inbox, 'g ' .. number .. ' ' .. waiter .. ' ' .. token ..
                ' ' .. reserve .. ' ' .. ttl .. ' ' .. since) > 0 then
                return 1
            end
            call('HDEL', keys[1], waiter)
            call('HSET', keys[3], waiter, found[1], '#run', run)
        elseif type(old) == 'string' then
            call('SET', keys[2], old)
        end
    end
    call('LPUSH', keys[4], waiter)
elseif waiter == false and released and kind == 'm' and call('EXISTS', keys[5]) == 0 then
    call('DEL', keys[3])
    call('PUBLISH', keys[7], '0')
    return 1
end

-- uses: base, own, queue, mutex
K = { name = keys[1], token = keys[2], info = keys[3], queue = keys[4], fair = keys[5],
    patience = keys[6], channel = keys[7], listeners = listeners }

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
