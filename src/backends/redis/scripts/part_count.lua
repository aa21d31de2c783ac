-- SPDX-License-Identifier: MIT
-- Permits: Redisson's semaphore (p) and its expiring semaphore (e). Both are a counter
-- of free permits; a zset has the deadline of each hold. For p only holdfast uses the
-- zset (member: owner), as Redisson's semaphore has no owners; for e it is Redisson's
-- (member: the raw id), and contains the permits of all clients.
--
-- INFO also has: #kind p or e, #held how many permits its records hold, #run, #open;
-- and if holdfast made the counter #made, #limit and #keep. Redisson also takes expired
-- permits back (e), without changing INFO: see count_purge().
--
-- TTLs: the next client that asks gives back our expired permits, so the keys must live
-- until then. If holdfast made the counter, all three keys expire together, KEEP_MS
-- after the last lease in them; #keep is that moment. They do not expire while a permit
-- without a lease is held (taken by Redisson's semaphore: counter and #held do not add
-- up to the limit). If Redisson made the counter, INFO expires with the leases in it
-- (e), or stays while permits are held (p).

local kind, free

local function member(owner)
    return kind == 'e' and permit_id(owner) or owner
end

-- The counter; nil if there is none, false if the key is no counter.
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

-- How many steps of the last hold are written, for count_undo().
local step

local function count_write(owner, r)
    step = 0
    call('HSET', K.info, owner, record_write(r))
    step = 1
    free = call('DECRBY', K.name, r.permits)
    step = 2
    call('ZADD', K.zset, text(now + r.ttl), member(owner))
    step = 3
    call('HINCRBY', K.info, '#held', r.permits)
    step = 4
end

local function count_undo(owner, r)
    if step > 3 then
        redis.pcall('HINCRBY', K.info, '#held', '-' .. r.permits)
    end
    if step > 2 then
        redis.pcall('ZREM', K.zset, member(owner))
    end
    if step > 1 then
        free = redis.pcall('INCRBY', K.name, r.permits)
    end
    redis.pcall('HDEL', K.info, owner)
end

local function count_own(owner, r)
    write_or_undo(count_write, count_undo, owner, r)
end

undo[count_own] = count_undo

-- Gives back what an owner holds; false if it is not in the zset.
local function count_drop(owner)
    local r = record_read(call('HGET', K.info, owner))
    if redis.pcall('ZREM', K.zset, member(owner)) ~= 1 then
        return false
    end
    local permits = r and r.permits or '1'
    free = redis.pcall('INCRBY', K.name, permits)
    if type(free) == 'table' then
        -- An ACL forbids it: restored with a lease, or the permit would be lost for
        -- ever.
        clock()
        call('ZADD', K.zset, text(now + (r and r.ttl or 0)), member(owner))
        free = call('INCRBY', K.name, permits)
    end
    if r then
        call('HDEL', K.info, owner)
        call('HINCRBY', K.info, '#held', '-' .. permits)
    end
    return true
end

-- Takes expired permits back, at most 100 at a time. Returns how many holds.
local function count_reclaim()
    clock()
    local late = call('ZRANGEBYSCORE', K.zset, 0, text(now), 'LIMIT', 0, 100)
    for _, id in ipairs(late) do
        count_drop(kind == 'e' and permit_owner(id) or id)
    end
    return #late
end

-- Deletes the records of holders that are not in the zset any more. Sets #held to the
-- permits that the other records hold, and returns it.
local function count_purge()
    local fields, held = call('HGETALL', K.info), 0
    for i = 1, #fields, 2 do
        local r = record_read(fields[i + 1])
        if r and r.state == 'h' and call('ZSCORE', K.zset, member(fields[i])) then
            held = held + r.permits
        elseif r and r.state == 'h' then
            call('HDEL', K.info, fields[i])
        end
    end
    call('HSET', K.info, '#held', held)
    return held
end

-- How many permits are held, from the zset; used if the counter was deleted.
local function count_alive()
    call('ZREMRANGEBYSCORE', K.zset, '-inf', text(now))
    local held = count_purge()
    return kind == 'e' and call('ZCARD', K.zset) or held
end

-- Is a permit held by a foreign client? `held` is #held. For e the zset has them all.
local function count_foreign(made, limit, held)
    if not made then
        return true
    elseif kind == 'p' then
        return free + held ~= tonumber(limit)
    end
    for _, id in ipairs(call('ZRANGE', K.zset, 0, -1)) do
        if call('HEXISTS', K.info, permit_owner(id)) == 0 then
            return true
        end
    end
    return false
end

-- Sets the TTLs, see above. `ttl` is the lease that the keys must outlive.
local function count_extend(ttl)
    clock()
    local notes = call('HMGET', K.info, '#made', '#limit', '#held', '#keep')
    local made, held, kept = notes[1], tonumber(notes[3]) or 0, tonumber(notes[4])
    if not made then
        if kind == 'p' and held > 0 then
            call('PERSIST', K.info)
        elseif call('EXISTS', K.info) == 1 then
            raise_ttl(K.info, ttl + QUEUE_MS)
        end
        return
    end
    if kind == 'p' and free + held ~= tonumber(notes[2]) then
        if kept then
            call('HDEL', K.info, '#keep')
            for _, key in ipairs({ K.name, K.info, K.zset }) do
                call('PERSIST', key)
            end
        end
        return
    end
    local last = now + ttl
    if kind == 'e' then
        last = math.max(last, tonumber(call('ZRANGE', K.zset, -1, -1, 'WITHSCORES')[2]) or 0)
    end
    local soon = not kept or kept < last + KEEP_MS / 2
    if soon then
        kept = last + KEEP_MS
        call('HSET', K.info, '#keep', text(kept))
    end
    if soon or call('PTTL', K.zset) == -1 then
        for _, key in ipairs({ K.name, K.info, K.zset }) do
            call('PEXPIREAT', key, text(kept))
        end
    end
end

-- Permits were given back: grants them to our waiters as far as they fit, and notifies
-- Redisson's of the rest. Deletes our keys when no client holds or waits.
local function count_release()
    local waiting = call('EXISTS', K.queue) == 1
    local first = waiting and queue_head()
    local payload = text(math.max(free, 0))
    local notified = waiting and drain_release(count_fits, count_own, payload)
    if free > 0 and not notified then
        notified = call('PUBLISH', K.channel, text(free)) > 0
    end
    local notes = call('HMGET', K.info, '#held', '#made', '#limit')
    local held = tonumber(notes[1]) or 0
    if waiting then
        count_extend(0)
        local owner, r = queue_head()
        -- The new first waiter asks again, to learn whether to subscribe to the
        -- channel.
        if owner and owner ~= first and count_foreign(notes[2], notes[3], held) then
            push(r, 'n', owner)
        end
        if owner then
            return
        end
    end
    if kind == 'e' and call('EXISTS', K.zset) == 0 then
        held = 0
    end
    if held > 0 then
        return
    elseif not notes[2] then
        call('DEL', K.info)
    elseif free == tonumber(notes[3]) and not notified then
        -- If a client of Redisson was notified, it comes for the counter, and would
        -- wait for ever without it: then the counter stays.
        call('DEL', K.name, K.info)
    end
end
