-- SPDX-License-Identifier: MIT
-- The fair queue, and the grant of a free mutex. Needs part_own.

-- A fair waiter of ours adds so much (ms) to its deadline, and takes it from the
-- deadlines behind it when it leaves the queue.
local PATIENCE = 30000

-- Redisson's first step: removes waiters at the head whose deadline has passed. A head
-- without a deadline stays. Returns the head and its deadline.
local function fair_evict()
    while true do
        local owner = call('LINDEX', K.fair, 0)
        local score = owner and call('ZSCORE', K.patience, owner)
        if not score then
            return owner
        end
        clock()
        if tonumber(score) > now then
            return owner, tonumber(score)
        end
        call('ZREM', K.patience, owner)
        call('LPOP', K.fair)
        call('HDEL', K.info, owner)
    end
end

-- Removes a waiter of ours from the fair queue: 1, or 0 if it was not there.
local function fair_drop(owner)
    local behind = false
    for _, other in ipairs(call('LRANGE', K.fair, 0, -1)) do
        if behind then
            call('ZADD', K.patience, 'XX', 'INCR', -PATIENCE, other)
        end
        behind = behind or other == owner
    end
    call('ZREM', K.patience, owner)
    return call('LREM', K.fair, 1, owner)
end

-- Adds the caller (me) to the fair queue, or extends its deadline. Returns its place,
-- and whether a foreign client is ahead.
local function fair_enqueue(me, mine, known, pttl)
    local wait = math.max(0, pttl)
    local score = tonumber(call('ZSCORE', K.patience, me) or 0)
    local queue = call('LRANGE', K.fair, 0, -1)
    local ours, place, foreign = {}, #queue, false
    for _, owner in ipairs(call('HKEYS', K.info)) do
        ours[owner] = true
    end
    for i, owner in ipairs(queue) do
        if owner == me then
            place = i - 1
            break
        end
        foreign = foreign or not ours[owner]
    end
    if place == #queue then
        local last = place > 0 and call('ZSCORE', K.patience, queue[place])
        if last then
            wait = tonumber(last) - now
        end
        call('RPUSH', K.fair, me)
    end
    if now + wait + PATIENCE > score then
        call('ZADD', K.patience, text(now + wait + PATIENCE), me)
    end
    call('HSET', K.info, me, waiter_record(mine, known))
    raise_ttl(K.info, mine.ttl + QUEUE_MS)
    return place, foreign
end

-- Removes the caller from the fair queue, as fair_drop, and notifies the new head.
local function fair_withdraw(me)
    local first = fair_evict() == me
    local found = fair_drop(me)
    call('HDEL', K.info, me)
    while first do
        local owner = fair_evict()
        local r = owner and record_read(call('HGET', K.info, owner))
        if owner and not r then
            call('PUBLISH', K.channel .. ':' .. owner, '0')
        end
        if not r or push(r, 'n', owner) then
            break
        end
        fair_drop(owner)
        call('HDEL', K.info, owner)
    end
    return found
end

-- Both grant a free mutex to the head of their queue. They return the new owner, or nil
-- and, if a client waits all the same, the reason: 'foreign' the lock is left to
-- Redisson, 'corrupt' there is no token. `release`: after RUN_MAX grants in a row the
-- other queue and Redisson come first.
local queue_grant, fair_grant

queue_grant = function(me, release)
    while true do
        local owner, r, run = mutex_next()
        if not owner then
            return nil
        end
        if release then
            run = run_restart(run)
        end
        if release and run >= RUN_MAX then
            mutex_put_back(owner)
            call('HSET', K.info, '#run', 0)
            if open_round('0') then
                return nil, 'foreign'
            end
            local other, other_why = fair_grant(me)
            if other or other_why then
                return other, other_why
            end
            release = false
        else
            local sent = queue_pass(owner, r, run, me)
            if sent then
                return owner
            elseif sent == nil then
                return nil, 'corrupt'
            end
        end
    end
end

fair_grant = function(me, release)
    while true do
        local owner = fair_evict()
        if not owner then
            return nil
        end
        local found = call('HMGET', K.info, owner, '#run')
        local r, run = record_read(found[1]), tonumber(found[2]) or 0
        if release and run >= RUN_MAX then
            call('HSET', K.info, '#run', 0)
            local other, why = queue_grant(me)
            if other or why then
                return other, why
            end
            release, run = false, 0
        end
        if not r then
            -- A client of Redisson takes the lock itself when notified.
            call('PUBLISH', K.channel .. ':' .. owner, '0')
            return nil, 'foreign'
        end
        if not grant(r) then
            return nil, 'corrupt'
        end
        fair_drop(owner)
        if not mutex_write(owner, r, run + 1) then
            -- Fails with the server's error.
            call('PEXPIRE', K.name, r.ttl)
        elseif mutex_push(owner, r, run, me) then
            return owner
        end
    end
end

-- Each kind grants to its own queue first, to the other queue if that is empty.
local function mutex_grant(kind, me, release)
    local first, second = queue_grant, fair_grant
    if kind == 'f' then
        first, second = fair_grant, queue_grant
    end
    local owner, why = first(me, release)
    if owner or why then
        return owner, why
    end
    return second(me, release)
end

-- Grants a mutex whose owner was removed from the hash.
local function mutex_release(owner, kind)
    local waiter, why = mutex_grant(kind, nil, true)
    if not waiter and not why then
        mutex_free()
        return
    end
    call('HDEL', K.info, owner)
    if why then
        tidy()
    end
    if why == 'corrupt' then
        call('PUBLISH', K.channel, '0')
    end
end
