-- SPDX-License-Identifier: MIT
-- uses: base, names
-- Renews leases, many at a time; with ttl 0 it checks whether they are still held.
--
-- KEYS  three for each: name, INFO, zset of deadlines (kinds p and e; else name again)
-- ARGV  four for each: kind (m f r w p e, s: layout simple), owner, ttl ms, and the
--       token that holds now if the client has handed the lock off, else 0
-- reply list of 1 (held) and 0 (lost)
--
-- A renewal can shorten only the owner's own lease: a key that several holders share
-- has the longest TTL of them.

-- Each function: true if the owner holds; if so, and ttl > 0, renews the lease.
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

-- A downgrade whose answer has not reached the client may have come before.
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

-- Without its hold key other clients count a reader as expired.
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

-- A semaphore that holdfast made outlives its last lease: see part_count. Without #keep
-- its keys do not expire.
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

-- Past its deadline a permit is free, even if it was not taken back yet.
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

-- The client has handed the lock off to another of its callers: notes the new token.
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
