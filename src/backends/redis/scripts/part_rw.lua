-- SPDX-License-Identifier: MIT
-- Redisson's read-write lock: a hash with `mode` and a field per reader (owner) or
-- writer (owner:write), and for each hold of a reader a key that lives as long as its
-- lease. INFO also has #run and #open.

-- The mode: nil (free), 'read' or 'write'. The functions below keep it up to date.
local mode

local function rw_fits(r)
    if r.kind == 'r' then
        return mode ~= 'write'
    end
    return r.kind == 'w' and not mode
end

local function rw_write(owner, r)
    if r.kind == 'r' then
        call('SET', reader_key(owner), 1, 'PX', r.ttl)
        call('HSET', K.name, 'mode', 'read', owner, 1)
        raise_ttl(K.name, r.ttl)
        mode = 'read'
    else
        call('HSET', K.name, 'mode', 'write', owner .. ':write', 1)
        call('PEXPIRE', K.name, r.ttl)
        mode = 'write'
    end
    call('HSET', K.info, owner, record_write(r))
end

-- Without a holder the hash must be deleted, so `mode` is removed as well.
local function rw_undo(owner, r)
    redis.pcall('HDEL', K.name, r.kind == 'w' and owner .. ':write' or owner)
    redis.pcall('HDEL', K.info, owner)
    if r.kind == 'r' then
        redis.pcall('DEL', reader_key(owner))
    end
    if redis.pcall('HLEN', K.name) == 1 then
        redis.pcall('HDEL', K.name, 'mode')
    end
    mode = redis.pcall('EXISTS', K.name) == 1 and mode or nil
end

local function rw_own(owner, r)
    write_or_undo(rw_write, rw_undo, owner, r)
end

undo[rw_own] = rw_undo

-- The longest lease left of a reader's holds; -1: without end, 0: none left.
local function reader_left(owner, holds)
    local most = 0
    for i = 1, tonumber(holds) or 0 do
        local left = call('PTTL', reader_key(owner, i))
        if left == -1 then
            return -1
        end
        most = math.max(most, left)
    end
    return most
end

-- Removes readers, also Redisson's, whose holds have all expired. The hash then lives
-- as long as the longest hold left. Returns that time.
local function rw_purge()
    local most, stay = 0, false
    local fields = call('HGETALL', K.name)
    for i = 1, #fields, 2 do
        local owner = fields[i]
        local left = owner == 'mode' and 0 or reader_left(owner, fields[i + 1])
        if owner ~= 'mode' and left == 0 then
            call('HDEL', K.name, owner)
            call('HDEL', K.info, owner)
        elseif owner ~= 'mode' then
            stay = true
            most = (left == -1 or most == -1) and -1 or math.max(most, left)
        end
    end
    if not stay then
        call('DEL', K.name)
        mode = nil
    elseif most > 0 then
        call('PEXPIRE', K.name, most)
    end
    return most
end

-- Is a holder a foreign client?
local function rw_foreign()
    for _, field in ipairs(call('HKEYS', K.name)) do
        local owner = string.gsub(field, ':write$', '')
        if owner ~= 'mode' and call('HEXISTS', K.info, owner) == 0 then
            return true
        end
    end
    return false
end

-- Grants after a hold was removed from the hash. `payload` is Redisson's message for
-- this release.
local function rw_release(payload)
    if call('HLEN', K.name) <= 1 then
        call('DEL', K.name)
        mode = nil
    elseif payload == '1' then
        -- A Redisson client may hold a read lock beside its write lock.
        call('HSET', K.name, 'mode', 'read')
        mode = 'read'
    end
    local waiting = call('EXISTS', K.queue) == 1
    if waiting and mode == 'read' then
        rw_purge()
    end
    local notified = waiting and drain_release(rw_fits, rw_own, payload)
    if not notified and mode ~= 'write' and (payload == '1' or not mode) then
        call('PUBLISH', K.channel, payload)
    end
    if waiting and mode == 'read' and rw_foreign() then
        -- Redisson's readers hold beside ours: the head must subscribe to the channel
        -- now.
        queue_notify()
    end
    tidy()
end

-- Releases what owner holds as a reader ('r') or writer ('w'): true if it was held.
local function rw_drop(owner, kind)
    local field = kind == 'w' and owner .. ':write' or owner
    if redis.pcall('HDEL', K.name, field) ~= 1 then
        return false
    end
    mode = call('HGET', K.name, 'mode') or nil
    if kind == 'r' then
        call('DEL', reader_key(owner))
    end
    call('HDEL', K.info, owner)
    rw_release(kind == 'w' and '1' or '0')
    return true
end
