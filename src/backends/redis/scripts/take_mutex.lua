-- SPDX-License-Identifier: MIT
-- Takes a mutex or a fair lock, or queues for it. A repeated request gets the current
-- state of the ticket.
--
-- KEYS  name, token, INFO, QUEUE, fair queue, fair timeouts, channel
-- ARGV  owner, ttl ms, reserve, inbox, number, details, flags (t: try), kind (m or f)
-- reply {1, token, span, ttl ms, server ms}              granted
--       {2, pttl ms, place, foreign, server ms}          queued
--       {3, pttl ms}                                     busy (try)
--
-- pttl: ask again after this time in any case; -1: there is no such time. foreign: the
-- release depends on a Redisson client, so subscribe to its channel and ask again when
-- subscribed (m: the channel, for the first of QUEUE; f: channel:owner, if the holder
-- or a waiter ahead is a Redisson client).

-- uses: mutex_keys
-- pastes: base, queue, own

local me, ttl, reserve, inbox, number, details, flags, kind = unpack(ARGV)
local try = flags ~= '' and string.find(flags, 't', 1, true)

if call('EXISTS', K.name, K.info, K.queue, K.fair) == 0 then
    local mine = record_new(ttl, reserve, inbox, number, details, kind, '1')
    return mutex_take(me, mine, true)
end

local fields = redis.pcall('HGETALL', K.name)
if fields.err then
    return mismatch('not a lock')
end
local holder
for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
        return mismatch('a read-write lock')
    elseif fields[i] == 'holdfast_version' then
        return mismatch('a cell')
    end
    holder = holder ~= me and fields[i] or holder
end

if kind == 'm' and holder and holder ~= me then
    local found = call('HMGET', K.info, me, holder, '#keep')
    local left = call('PTTL', K.name)
    if try then
        return { 3, left }
    end
    local mine = record_new(ttl, reserve, inbox, number, details, kind, '1')
    local known = record_read(found[1])
    return mutex_wait(me, mine, known, found[3], left, not found[2])
end

-- uses: base, queue, own, mutex

local mine = record_new(ttl, reserve, inbox, number, details, kind, '1')

if kind == 'f' then
    fair_evict()
end
local found = call('HMGET', K.info, me, holder or '', '#keep', '#open', '#last')
local known = record_read(found[1])

local function wait(pttl, foreign)
    if try then
        return { 3, pttl }
    elseif kind == 'm' then
        return mutex_wait(me, mine, known, found[3], pttl, foreign)
    end
    local place, other = fair_enqueue(me, mine, known, pttl)
    place = place + call('LLEN', K.queue)
    return { 2, pttl, place, (foreign or other) and 1 or 0, now }
end

-- Free, but another client may come before the caller.
local function take_next(open, last)
    local left = open_left(open)
    if left > 0 then
        return wait(left, true)
    end
    local late = last and last ~= me and record_read(call('HGET', K.info, last))
    if late and late.state == 'h' then
        call('HDEL', K.info, last)
    end
    local owner, why = mutex_grant(kind, me)
    if owner == me then
        raise_ttl(K.info, ttl)
        return reply_granted(record_read(call('HGET', K.info, me)))
    elseif owner then
        return wait(call('PTTL', K.name), false)
    elseif why == 'corrupt' then
        return corrupt()
    elseif why then
        return wait(ASK_FOREIGN_MS, true)
    end
    return mutex_take(me, mine)
end

if not holder then
    return take_next(found[4], found[5])
elseif holder ~= me then
    return wait(call('PTTL', K.name), not found[2])
elseif not known or known.state ~= 'h' then
    return mutex_take(me, mine)
end
call('PEXPIRE', K.name, ttl)
raise_ttl(K.info, ttl)
known.ttl = ttl
return reply_granted(known)
