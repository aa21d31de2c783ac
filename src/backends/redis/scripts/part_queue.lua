-- SPDX-License-Identifier: MIT
-- QUEUE: holdfast's waiters, first come first served. INFO has a record (w) of each.

-- The first in the queue that has a record, and the record; it stays where it is.
local function queue_head()
    while true do
        local owner = call('LINDEX', K.queue, 0)
        if not owner then
            return nil
        end
        local r = record_read(call('HGET', K.info, owner))
        if r and r.state == 'w' then
            return owner, r
        end
        call('LPOP', K.queue)
    end
end

-- How many stand before me. Enters me if I am not there yet.
local function queue_place(me, known)
    if known then
        if call('LINDEX', K.queue, 0) == me then
            return 0
        end
        for i, owner in ipairs(call('LRANGE', K.queue, 0, -1)) do
            if owner == me then
                return i - 1
            end
        end
    end
    return call('RPUSH', K.queue, me) - 1
end

-- Enters or refreshes me; `known` is the record I have already. Returns my place.
local function enqueue(me, mine, known, forever)
    if known and known.state == 'w' then
        mine.since = known.since
    end
    local place = queue_place(me, known)
    call('HSET', K.info, me, record_write(mine))
    call('PEXPIRE', K.queue, QUEUE_MS)
    if not forever then
        raise_ttl(K.info, mine.ttl + QUEUE_MS)
    end
    return place
end

-- Wakes the first one that lives, to look again.
local function queue_notify()
    while true do
        local owner, r = queue_head()
        if not owner or push(r, 'n', owner) then
            return
        end
        call('HDEL', K.info, owner)
    end
end

-- Takes me out: 1, or 0 if I was not there. Who comes first now is told.
local function dequeue(me)
    local first = call('LINDEX', K.queue, 0) == me
    local found = call('LREM', K.queue, 1, me)
    call('HDEL', K.info, me)
    if first then
        queue_notify()
    end
    return found
end

-- An open round: Redisson's waiters, if there are any, get OPEN_MS before the queue
-- goes on. Newcomers and waiters of ours that ask meanwhile are told to come back.
-- K.told: that was announced already, to so many.
local function open_round(payload)
    local listeners = K.listeners or call('PUBLISH', K.channel, payload)
    if listeners == 0 then
        return false
    end
    clock()
    call('HSET', K.info, '#run', 0, '#open', text(now + OPEN_MS))
    queue_notify()
    return true
end

-- What is left of the open round, 0 if there is none. One that ends later than it could
-- is of a clock that was set back since: it is over.
local function open_left(open)
    clock()
    local left = (tonumber(open) or 0) - now
    return left <= OPEN_MS and math.max(0, left) or 0
end
