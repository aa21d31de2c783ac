-- SPDX-License-Identifier: MIT
-- QUEUE: holdfast's waiters in order of arrival. INFO has a record (w) of each.

-- The first waiter that has a record, and the record; it stays in the queue.
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

-- How many waiters are ahead of the caller (me), which is added if it is not queued
-- yet; `known` is the record that it has.
local function queue_place(me, known)
    local place
    if known and call('LINDEX', K.queue, 0) == me then
        place = 0
    elseif known then
        for i, owner in ipairs(call('LRANGE', K.queue, 0, -1)) do
            if owner == me then
                place = i - 1
                break
            end
        end
    end
    return place or call('RPUSH', K.queue, me) - 1
end

-- The new record of a waiter: it waits since it was queued first.
local function waiter_record(mine, known)
    if known and known.state == 'w' then
        mine.since = known.since
    end
    local record = record_write(mine)
    return record
end

-- Adds the caller (me) or updates its record. Returns its place.
local function enqueue(me, mine, known, forever)
    local place = queue_place(me, known)
    call('HSET', K.info, me, waiter_record(mine, known))
    call('PEXPIRE', K.queue, QUEUE_MS)
    if not forever then
        raise_ttl(K.info, mine.ttl + QUEUE_MS)
    end
    return place
end

-- Notifies the first waiter whose client is connected; it asks again.
local function queue_notify()
    while true do
        local owner, r = queue_head()
        if not owner or push(r, 'n', owner) then
            return
        end
        call('HDEL', K.info, owner)
    end
end

-- Removes the caller: 1, or 0 if it was not queued. Notifies the new head.
local function dequeue(me)
    local first = call('LINDEX', K.queue, 0) == me
    local found = call('LREM', K.queue, 1, me)
    call('HDEL', K.info, me)
    if first then
        queue_notify()
    end
    return found
end

-- An open round: for OPEN_MS the lock is left to Redisson's waiters, if there are any.
-- Our waiters that ask meanwhile get the rest of that time as the time to ask again.
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

-- What is left of the open round, 0 if there is none. If it seems to last longer than
-- OPEN_MS the clock was set back: it is over.
local function open_left(open)
    clock()
    local left = (tonumber(open) or 0) - now
    return left <= OPEN_MS and math.max(0, left) or 0
end
