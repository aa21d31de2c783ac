-- SPDX-License-Identifier: MIT
-- The fair queue, and how a mutex is handed on. Needs part_own.

-- Patience of a fair waiter of ours (ms): what it adds to its deadline, what is taken
-- from those behind it when it goes.
local PATIENCE = 30000

-- Redisson's first step: those at the head whose deadline has passed are out. A head
-- without a deadline stays.
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

-- Takes a waiter of ours out of the fair queue: 1, or 0 if it was not there.
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

-- Enters me in the fair queue, or moves my deadline up.
-- Returns my place, and whether somebody ahead is not of ours.
local function fair_enqueue(me, mine, known, pttl)
    if known and known.state == 'w' then
        mine.since = known.since
    end
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
    call('HSET', K.info, me, record_write(mine))
    raise_ttl(K.info, mine.ttl + QUEUE_MS)
    return place, foreign
end

-- Gives up a place in the fair queue, as fair_drop. Who comes first now is told.
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

-- A free mutex goes to the first of its queue. Both ways return the new owner, or nil
-- and why nobody of ours has it though somebody waits: 'turn' it is Redisson's turn,
-- 'corrupt' there is no token. `release`: the run counts; it may be another's turn.
local queue_grant, fair_grant

queue_grant = function(me, release)
    while true do
        local owner, r, run = mutex_next()
        if not owner then
            return nil
        end
        if release and run >= RUN_MAX then
            call('LPUSH', K.queue, owner)
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
            if not grant(r) then
                call('LPUSH', K.queue, owner)
                return nil, 'corrupt'
            end
            mutex_own(owner, r, run + 1)
            if push_grant(owner, r, me) then
                return owner
            end
            mutex_undo(owner)
            call('HSET', K.info, '#run', run)
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
            -- One of Redisson's: it takes the lock itself when told.
            call('PUBLISH', K.channel .. ':' .. owner, '0')
            return nil, 'foreign'
        end
        if not grant(r) then
            return nil, 'corrupt'
        end
        fair_drop(owner)
        mutex_own(owner, r, run + 1)
        if push_grant(owner, r, me) then
            return owner
        end
        mutex_undo(owner)
        call('HSET', K.info, '#run', run)
    end
end

-- Each kind hands on to its own queue first, to the other one when that is empty.
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

-- Hands on the mutex of an owner that is gone from the hash already.
local function mutex_release(owner, kind)
    local waiter, why = mutex_grant(kind, nil, true)
    if not waiter and not why then
        call('DEL', K.info)
        call('PUBLISH', K.channel, '0')
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
