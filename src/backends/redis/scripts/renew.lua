-- SPDX-License-Identifier: MIT
-- uses: base, names
-- Renews leases, many at a time; or looks whether they are still held (ttl 0).
--
-- KEYS  three for each: name, INFO, zset of deadlines (kinds p and e; else name again)
-- ARGV  four for each: kind (m f r w p e, s: layout simple), owner, ttl ms, and the
--       token that holds it now if its client has handed it on, else 0
-- reply list of 1 (held) and 0 (lost)
--
-- Nobody's lease is cut short but the owner's own: where several share a key, its TTL
-- is the longest.

-- Each: is it held? If so, and ttl > 0, renew it.
local renew = {}

function renew.m(owner, ttl)
    local held = redis.pcall('HEXISTS', K.name, owner) == 1
    if held and ttl > 0 then
        call('PEXPIRE', K.name, ttl)
    end
    return held
end

renew.f = renew.m

function renew.s(owner, ttl)
    local held = redis.pcall('GET', K.name) == owner
    if held and ttl > 0 then
        call('PEXPIRE', K.name, ttl)
    end
    return held
end

-- A downgrade that its client has not heard of yet may have come before.
function renew.w(owner, ttl)
    if redis.pcall('HEXISTS', K.name, owner .. ':write') ~= 1 then
        return renew.r(owner, ttl)
    end
    if ttl > 0 and call('HLEN', K.name) == 2 then
        call('PEXPIRE', K.name, ttl)
    elseif ttl > 0 then
        raise_ttl(K.name, ttl)
    end
    return true
end

-- Without its hold key a reader counts as gone for everybody else already.
function renew.r(owner, ttl)
    if redis.pcall('HEXISTS', K.name, owner) ~= 1 then
        return false
    end
    local key = reader_key(owner)
    if ttl == 0 then
        return call('EXISTS', key) == 1
    end
    raise_ttl(K.name, ttl)
    return call('PEXPIRE', key, ttl) == 1
end

-- A semaphore that we made outlives its last lease: see part_count. Without #keep there
-- is nothing to prolong.
local function keep_made(last)
    local kept = tonumber(call('HGET', K.info, '#keep') or nil)
    if kept and kept < last + KEEP_MS / 2 then
        kept = text(last + KEEP_MS)
        call('HSET', K.info, '#keep', kept)
        for _, key in ipairs({ K.name, K.info, K.zset }) do
            call('PEXPIREAT', key, kept)
        end
    end
end

-- Past its deadline a permit is anybody's, whether or not it was taken back yet.
function renew.p(owner, ttl, member)
    member = member or owner
    clock()
    local score = redis.pcall('ZSCORE', K.zset, member)
    local held = type(score) == 'string' and tonumber(score) > now
    if held and ttl > 0 then
        call('ZADD', K.zset, text(now + ttl), member)
        keep_made(now + ttl)
    end
    return held
end

function renew.e(owner, ttl)
    return renew.p(owner, ttl, permit_id(owner))
end

-- The client has handed the lock on inside itself: the record gets the number.
local function note_hand_off(owner, token)
    local r = record_read(call('HGET', K.info, owner))
    local behind = r and r.state == 'h' and token - tonumber(r.token)
    if behind and behind > 0 and behind < tonumber(r.span) then
        r.token, r.span = text(token), text(r.span - behind)
        call('HSET', K.info, owner, record_write(r))
    end
end

local reply = {}
for i = 1, #KEYS / 3 do
    K.name, K.info, K.zset = unpack(KEYS, 3 * i - 2, 3 * i)
    local kind, owner, ttl, token = unpack(ARGV, 4 * i - 3, 4 * i)
    ttl, token = tonumber(ttl), tonumber(token)
    local held = renew[kind](owner, ttl)
    if held and token > 0 then
        note_hand_off(owner, token)
    end
    if held and ttl > 0 and kind ~= 'p' then
        raise_ttl(K.info, ttl)
    end
    table.insert(reply, held and 1 or 0)
end
return reply
