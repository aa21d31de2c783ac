-- SPDX-License-Identifier: MIT
-- uses: base, own
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

local keys = KEYS
K = { name = keys[1], token = keys[2], info = keys[3], queue = keys[4], fair = keys[5],
    patience = keys[6], channel = keys[7] }
local me, ttl, reserve, inbox, slot, details, flags, kind = unpack(ARGV)
local try = string.find(flags, 't', 1, true)

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

-- uses: queue

local found, known
local function look()
    found = call('HMGET', K.info, me, '#open', '#last', holder or '')
    known = record_read(found[1])
end

local function wait_in_queue(pttl, foreign)
    if try then
        return { 3, pttl }
    end
    local place = enqueue(me, mine, known)
    foreign = foreign and place == 0
    place = place + call('LLEN', K.fair)
    return { 2, pttl, place, foreign and 1 or 0, now }
end

if holder and holder ~= me and kind == 'm' then
    look()
    return wait_in_queue(call('PTTL', K.name), not found[4])
end

-- uses: mutex

-- How long a waiter sleeps behind a fair head of Redisson's that does not come (ms).
local FOREIGN_MS = 1000

local function wait(pttl, foreign)
    if try or kind == 'm' then
        return wait_in_queue(pttl, foreign)
    end
    local place, other = fair_enqueue(me, mine, known, pttl)
    place = place + call('LLEN', K.queue)
    return { 2, pttl, place, (foreign or other) and 1 or 0, now }
end

-- Free, but somebody may come before me.
local function take_turn(open, last)
    local left = open_left(open)
    if left > 0 then
        return wait(left, true)
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
        return wait(call('PTTL', K.name), false)
    elseif why == 'corrupt' then
        return corrupt()
    elseif why then
        return wait(FOREIGN_MS, true)
    end
    return take()
end

if kind == 'f' then
    fair_evict()
end
look()
if not holder then
    return take_turn(found[2], found[3])
elseif holder ~= me then
    return wait(call('PTTL', K.name), not found[4])
elseif not known or known.state ~= 'h' then
    return take()
end
call('PEXPIRE', K.name, ttl)
keep(K.info, ttl)
known.ttl = ttl
return granted(known)
