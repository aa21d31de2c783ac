-- SPDX-License-Identifier: MIT
-- Permits: Redisson's semaphore (p) and its expiring one (e). Both are a counter of
-- free permits; a zset has the deadline of each hold. Of p the zset is holdfast's own
-- (member: owner), as Redisson's semaphore has no owners; of e it is Redisson's
-- (member: the raw id), and everybody's permits are in it.
--
-- INFO also has: #kind p or e, #held how many permits are held by us, #run, #open; and
-- if the counter is made by us #made and #limit. Neither counter nor INFO expires while
-- something is held: an expired hold must be found to give its permits back, and
-- Redisson's holders, whom nobody sees, must not lose theirs.

local kind, free

local function member(owner)
    return kind == 'e' and permit_id(owner) or owner
end

-- The counter; nil if there is none, false if it is something else.
local function count_read()
    local value = redis.pcall('GET', K.name)
    if not value then
        return nil
    end
    local number = type(value) == 'string' and string.match(value, '^-?%d+$')
    return number and tonumber(number) or false
end

local function count_fits(r)
    return r.kind == kind and tonumber(r.permits) <= free
end

local function count_own(owner, r)
    free = call('DECRBY', K.name, r.permits)
    call('ZADD', K.zset, text(now + r.ttl), member(owner))
    call('HSET', K.info, owner, record_write(r))
    call('HINCRBY', K.info, '#held', r.permits)
end

-- Gives back what an owner holds; false if it is not in the zset.
local function count_drop(owner)
    if redis.pcall('ZREM', K.zset, member(owner)) ~= 1 then
        return false
    end
    local r = record_read(call('HGET', K.info, owner))
    local permits = r and r.permits or '1'
    free = call('INCRBY', K.name, permits)
    call('HDEL', K.info, owner)
    call('HINCRBY', K.info, '#held', '-' .. permits)
    return true
end

-- Takes expired permits back, at most 100 at a time. Returns how many holds.
local function count_reclaim()
    clock()
    local late = call('ZRANGEBYSCORE', K.zset, 0, text(now), 'LIMIT', 0, 100)
    for _, id in ipairs(late) do
        local owner = kind == 'e' and permit_owner(id) or id
        if kind == 'p' or call('HEXISTS', K.info, owner) == 1 then
            count_drop(owner)
        else
            call('ZREM', K.zset, id)
            free = call('INCRBY', K.name, 1)
        end
    end
    return #late
end

-- Permits came back: whoever fits comes in, the rest is for Redisson's waiters. What is
-- of ours goes when nobody holds or waits.
local function count_release()
    local waiting = call('EXISTS', K.queue) == 1
    local first = waiting and queue_head()
    local payload = text(math.max(free, 0))
    local told = waiting and drain_release(count_fits, count_own, payload)
    if free > 0 and not told then
        told = call('PUBLISH', K.channel, text(free)) > 0
    end
    local notes = call('HMGET', K.info, '#held', '#made', '#limit')
    if waiting then
        local owner, r = queue_head()
        -- The new head must know whether to listen to Redisson's channel.
        local all = free + (tonumber(notes[1]) or 0)
        if owner and owner ~= first and (not notes[2] or all ~= tonumber(notes[3])) then
            push(r, 'n', owner)
        end
        if owner then
            return
        end
    end
    if (tonumber(notes[1]) or 0) > 0 then
        return
    elseif not notes[2] then
        call('DEL', K.info)
    elseif free == tonumber(notes[3]) and not told then
        -- One of Redisson's that was told comes for the counter: without it, it would
        -- wait for ever.
        call('DEL', K.name, K.info)
    end
end
