-- SPDX-License-Identifier: MIT
-- uses: base, names
-- Moves a hold to a new owner under one token of its block. The old owner's client gets
-- a message that the hold is lost. A repeated request checks that the new owner still
-- holds, and gives it a fresh lease.
--
-- KEYS  as the kind's take
-- ARGV  old owner, token, then as the kind's take: owner, ttl ms, reserve, inbox,
--       number, details, flags, kind (s: layout simple)
-- reply {token, span, ttl ms, server ms}, or nil if the old owner does not hold it, or
--       not as that kind, or not under that token

K.name, K.info, K.zset = KEYS[1], KEYS[3], KEYS[6]
local old, token, new, ttl, _, inbox, number, details, _, kind = unpack(ARGV)

-- Each function moves a hold from one owner to another, or to itself, with a new lease:
-- true if the hold existed. The lease is set first: if the server refuses that (an
-- ACL), nothing was moved, and at no time is there a lock without a lease.
local move = {}

function move.m(from, to)
    if redis.pcall('HEXISTS', K.name, from) ~= 1 then
        return false
    end
    call('PEXPIRE', K.name, ttl)
    call('HSET', K.name, to, 1)
    if from ~= to then
        call('HDEL', K.name, from)
        call('HSET', K.info, '#last', to)
    end
    return true
end

move.f = move.m

function move.s(from, to)
    if redis.pcall('GET', K.name) ~= from then
        return false
    end
    call('SET', K.name, to, 'PX', ttl)
    return true
end

function move.w(from, to)
    if redis.pcall('HEXISTS', K.name, from .. ':write') ~= 1 then
        return false
    end
    raise_ttl(K.name, ttl)
    call('HSET', K.name, to .. ':write', 1)
    if from ~= to then
        call('HDEL', K.name, from .. ':write')
    end
    return true
end

function move.r(from, to)
    if redis.pcall('HEXISTS', K.name, from) ~= 1
        or call('EXISTS', reader_key(from)) == 0 then
        return false
    end
    raise_ttl(K.name, ttl)
    call('SET', reader_key(to), 1, 'PX', ttl)
    call('HSET', K.name, to, 1)
    if from ~= to then
        call('HDEL', K.name, from)
        redis.pcall('DEL', reader_key(from))
    end
    return true
end

local function move_permit(from, to)
    local score = redis.pcall('ZSCORE', K.zset, from)
    if type(score) ~= 'string' or tonumber(score) <= now then
        return false
    end
    call('ZADD', K.zset, text(now + ttl), from)
    if from ~= to then
        call('ZREM', K.zset, from)
        call('ZADD', K.zset, text(now + ttl), to)
    end
    return true
end

move.p = move_permit

function move.e(from, to)
    return move_permit(permit_id(from), permit_id(to))
end

clock()
local r = record_read(call('HGET', K.info, new))
local from = r and r.state == 'h' and new or old
if from == old then
    r = record_read(call('HGET', K.info, old))
end
local wanted, first = tonumber(token), r and tonumber(r.token)
local same = r and r.state == 'h' and r.kind == (kind == 's' and 'm' or kind)
if not same or wanted < first or wanted >= first + tonumber(r.span) then
    return false
end
-- What the server may refuse is done before the move. After the move errors are
-- ignored, so that the adopting client gets the answer in any case.
if kind ~= 'p' and kind ~= 'e' then
    raise_ttl(K.info, ttl)
end
if not move[kind](from, new) then
    return false
end
if from == old then
    pcall(push, r, 'l', old)
    redis.pcall('HDEL', K.info, old)
end
r.token, r.span, r.ttl = token, '1', ttl
r.inbox, r.number, r.details = inbox, number, details
call('HSET', K.info, new, record_write(r))
return { wanted, 1, tonumber(ttl), now }
