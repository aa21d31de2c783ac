-- SPDX-License-Identifier: MIT
-- uses: base, names
-- Moves a hold to a new owner, token and all. The old one is told that it lost it.
--
-- KEYS  as the kind's take
-- ARGV  old owner, then as the kind's take: owner, ttl ms, reserve, inbox, slot,
--       details, flags, kind (s: layout simple)
-- reply {token, span, ttl ms, server ms}, or nil if the old owner does not hold it

K.name, K.info, K.zset = KEYS[1], KEYS[3], KEYS[6]
local old, new, ttl, _, inbox, slot, details, _, kind = unpack(ARGV)

-- Each moves the hold: true if there was one.
local move = {}

function move.m()
    if redis.pcall('HDEL', K.name, old) ~= 1 then
        return false
    end
    call('HSET', K.name, new, 1)
    call('PEXPIRE', K.name, ttl)
    call('HSET', K.info, '#last', new)
    return true
end

move.f = move.m

function move.s()
    if redis.pcall('GET', K.name) ~= old then
        return false
    end
    call('SET', K.name, new, 'PX', ttl)
    return true
end

-- The new field first: a hash without fields would be gone, and its TTL with it.
function move.w()
    if redis.pcall('HEXISTS', K.name, old .. ':write') ~= 1 then
        return false
    end
    call('HSET', K.name, new .. ':write', 1)
    call('HDEL', K.name, old .. ':write')
    keep(K.name, ttl)
    return true
end

function move.r()
    if redis.pcall('HEXISTS', K.name, old) ~= 1
        or call('DEL', reader_key(old)) == 0 then
        return false
    end
    call('HSET', K.name, new, 1)
    call('HDEL', K.name, old)
    call('SET', reader_key(new), 1, 'PX', ttl)
    keep(K.name, ttl)
    return true
end

local function move_permit(from, to)
    local score = redis.pcall('ZSCORE', K.zset, from)
    if type(score) ~= 'string' or tonumber(score) <= now then
        return false
    end
    call('ZREM', K.zset, from)
    call('ZADD', K.zset, text(now + ttl), to)
    return true
end

function move.p()
    return move_permit(old, new)
end

function move.e()
    return move_permit(permit_id(old), permit_id(new))
end

clock()
local done = record_read(call('HGET', K.info, new))
if done and done.state == 'h' then
    return { tonumber(done.token), tonumber(done.span), tonumber(done.ttl), now }
end
local r = record_read(call('HGET', K.info, old))
if not r or r.state ~= 'h' or not move[kind]() then
    return false
end
push(r, 'l', old)
call('HDEL', K.info, old)
r.ttl, r.inbox, r.slot, r.details = ttl, inbox, slot, details
call('HSET', K.info, new, record_write(r))
if kind ~= 'p' and kind ~= 'e' then
    keep(K.info, ttl)
end
return { tonumber(r.token), tonumber(r.span), tonumber(r.ttl), now }
