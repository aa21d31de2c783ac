-- SPDX-License-Identifier: MIT
-- uses: base, names, queue, drain, rw
-- Takes a read-write lock for reading or writing, or queues for it. Readers hold
-- together, but do not overtake a waiter, so that writers do not starve.
--
-- KEYS  name, token, INFO, QUEUE, channel
-- ARGV  owner, ttl ms, reserve, inbox, number, details, flags (t: try), kind (r or w)
-- reply as take_mutex

K.name, K.token, K.info, K.queue, K.channel = unpack(KEYS)
local me, ttl, reserve, inbox, number, details, flags, kind = unpack(ARGV)

clock()
local mine = record_new(ttl, reserve, inbox, number, details, kind, '1')

local function take()
    if not grant(mine) then
        return corrupt()
    end
    rw_own(me, mine)
    raise_ttl(K.info, ttl)
    return reply_granted(mine)
end

local function wait(known, pttl, other)
    if string.find(flags, 't', 1, true) then
        return { 3, pttl }
    end
    local place = enqueue(me, mine, known)
    return { 2, pttl, place, place == 0 and (other or rw_foreign() and 1) or 0, now }
end

if call('EXISTS', K.name, K.info, K.queue) == 0 then
    return take()
end

local field = kind == 'w' and me .. ':write' or me
local found = redis.pcall('HMGET', K.name, 'mode', field)
if found.err then
    return mismatch('not a lock')
end
mode = found[1] or nil
local pttl = call('PTTL', K.name)
if not mode and pttl ~= -2 then
    return mismatch('another lock')
end

local notes = call('HMGET', K.info, me, '#open')
local known = record_read(notes[1])
if found[2] then
    if not known or known.state ~= 'h' then
        return take()
    end
    known.ttl = ttl
    if kind == 'r' then
        call('SET', reader_key(me), 1, 'PX', ttl)
    end
    raise_ttl(K.name, ttl)
    raise_ttl(K.info, ttl)
    return reply_granted(known)
end

if not mode then
    forget_holders()
    local left = open_left(notes[2])
    if left > 0 then
        return wait(known, left, 1)
    end
elseif mode == 'read' and kind == 'w' then
    pttl = rw_purge()
end

local _, in_too, no_token = drain(rw_fits, rw_own, me)
if no_token then
    return corrupt()
elseif in_too then
    raise_ttl(K.info, ttl)
    return reply_granted(record_read(call('HGET', K.info, me)))
elseif rw_fits(mine) and call('EXISTS', K.queue) == 0 then
    return take()
elseif not known and kind == 'r' and mode == 'read' and rw_foreign() then
    -- Redisson's readers overtake a waiting writer in any case: ours may as well.
    return take()
end
return wait(known, mode and call('PTTL', K.name) or pttl)
