-- SPDX-License-Identifier: MIT
-- uses: base, queue, mutex
-- Takes a mutex or a fair lock, or queues for it. Asked again it answers what is the
-- case.
--
-- KEYS  name, token, INFO, QUEUE, fair queue, fair timeouts, channel
-- ARGV  owner, ttl ms, reserve, inbox, slot, details, flags (t: try), kind (m or f)
-- reply {1, token, span, ttl ms, server ms}              granted
--       {2, pttl ms, place, foreign, server ms}          queued
--       {3, pttl ms}                                     busy (try)
--
-- pttl is the time after which to ask again whatever happens, -1 if there is none.
-- foreign: a Redisson client decides when it is my turn, so listen to its channel (m:
-- the channel, if I am the first of QUEUE; f: channel:owner, if any ahead or the holder
-- is Redisson's) and ask again once listening.

K.name, K.token, K.info, K.queue, K.fair, K.patience, K.channel = unpack(KEYS)
local me, ttl, reserve, inbox, slot, details, flags, kind = unpack(ARGV)
local try = string.find(flags, 't', 1, true)

-- How long a waiter sleeps behind a fair head of Redisson's that does not come (ms).
local FOREIGN_MS = 1000

clock()
local mine = record_new(ttl, reserve, inbox, slot, details, kind, '1')

local function take(fresh)
    if not give(me, mine, me) then
        return corrupt()
    end
    mutex_own(me, mine, 0)
    if fresh then
        call('PEXPIRE', K.info, ttl)
    else
        keep(K.info, ttl)
    end
    return granted(mine)
end

local function wait(known, pttl, foreign)
    if try then
        return { 3, pttl }
    end
    local place, other
    if kind == 'f' then
        place, other = fair_enqueue(me, mine, known, pttl)
        place = place + call('LLEN', K.queue)
        foreign = foreign or other
    else
        place = enqueue(me, mine, known)
        foreign = foreign and place == 0
        place = place + call('LLEN', K.fair)
    end
    return { 2, pttl, place, foreign and 1 or 0, now }
end

-- Free, but somebody may come before me.
local function take_turn(known, open, last)
    local left = open_left(open)
    if left > 0 then
        return wait(known, left, true)
    end
    local late = last and last ~= me and record_read(call('HGET', K.info, last))
    if late and late.state == 'h' then
        call('HDEL', K.info, last)
    end
    local owner, why = mutex_pass(kind, me)
    if owner == me then
        keep(K.info, ttl)
        return granted(record_read(call('HGET', K.info, me)))
    elseif owner then
        return wait(known, call('PTTL', K.name), false)
    elseif why == 'corrupt' then
        return corrupt()
    elseif why then
        return wait(known, FOREIGN_MS, true)
    end
    return take()
end

if call('EXISTS', K.name, K.info, K.queue, K.fair) == 0 then
    return take(true)
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

if kind == 'f' then
    fair_evict()
end
local found = call('HMGET', K.info, me, '#open', '#last', holder or '')
local known = record_read(found[1])
if not holder then
    return take_turn(known, found[2], found[3])
elseif holder ~= me then
    return wait(known, call('PTTL', K.name), not found[4])
elseif not known or known.state ~= 'h' then
    return take()
end
call('PEXPIRE', K.name, ttl)
keep(K.info, ttl)
known.ttl = ttl
return granted(known)
