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

local call, keys = redis.call, KEYS
local me, ttl, reserve, inbox, number, details, flags, kind = unpack(ARGV)
local try = flags ~= '' and string.find(flags, 't', 1, true)

-- The common cases come first, without the functions of the shared parts: the server
-- needs as much time to make a function as for a command. Any other case changes
-- nothing here and goes on below.
local present = call('EXISTS', keys[1], keys[3], keys[4], keys[5])
local time = call('TIME')
local micros = string.format('%06d', time[2])
local second = time[1]

if present == 0 then
    -- Free, and no client waits. (The token as in draw_token() of part_base.)
    local token, span = second .. micros, reserve
    local old = redis.pcall('GETSET', keys[2], reserve == '1' and token or
        string.format('%.0f', token + reserve - 1))
    local last = not old and 0 or
        type(old) == 'string' and string.find(old, '^%d+$') and tonumber(old)
    if last and last >= token + 0 and last < 2 ^ 53 - 2 ^ 20 then
        token, span = string.format('%.0f', last + 1), '1'
        call('SET', keys[2], token)
        last = 0
    end
    if last and last < token + 0 then
        call('HSET', keys[1], me, 1)
        if redis.pcall('PEXPIRE', keys[1], ttl) ~= 1 then
            -- An ACL forbids PEXPIRE: without a lease the hold would never end.
            call('HDEL', keys[1], me)
            return call('PEXPIRE', keys[1], ttl)
        end
        call('HSET', keys[3], me, 'h ' .. kind .. ' 1 ' .. ttl .. ' ' .. reserve ..
            ' ' .. token .. ' ' .. span .. ' ' .. second ..
            string.sub(micros, 1, 3) .. ' ' .. inbox .. ' ' .. number .. ' ' .. details,
            '#last', me, '#run', 0)
        call('PEXPIRE', keys[3], ttl)
        return { 1, tonumber(token), tonumber(span), tonumber(ttl),
            second * 1000 + string.sub(micros, 1, 3) }
    elseif type(old) == 'string' then
        call('SET', keys[2], old)
    end
elseif kind == 'm' then
    -- Held by another owner, and the caller is not queued yet. (As enqueue() in
    -- part_queue; #keep: QUEUE and INFO live at least until then.)
    local fields = redis.pcall('HGETALL', keys[1])
    local holder = #fields == 2 and fields[1]
    if holder and holder ~= me and holder ~= 'mode' and holder ~= 'holdfast_version' then
        local found = call('HMGET', keys[3], me, holder, '#keep')
        local since = second .. string.sub(micros, 1, 3)
        if try then
            return { 3, call('PTTL', keys[1]) }
        elseif not found[1] then
            local place = call('RPUSH', keys[4], me) - 1
            call('HSET', keys[3], me, 'w m 1 ' .. ttl .. ' ' .. reserve .. ' 0 0 ' ..
                since .. ' ' .. inbox .. ' ' .. number .. ' ' .. details)
            if place == 0 or tonumber(ttl) > 30000 or
                (tonumber(found[3]) or 0) < since + 90000 then
                call('PEXPIRE', keys[4], 120000)
                if call('PTTL', keys[3]) < ttl + 120000 then
                    call('PEXPIRE', keys[3], ttl + 120000)
                end
                call('HSET', keys[3], '#keep', string.format('%.0f', since + 120000))
            end
            local foreign = not found[2] and place == 0 and 1 or 0
            if not found[2] or present > (place > 0 and 3 or 2) then
                place = place + call('LLEN', keys[5])
            end
            return { 2, call('PTTL', keys[1]), place, foreign, tonumber(since) }
        end
    end
end

-- uses: base, own
K = { name = keys[1], token = keys[2], info = keys[3], queue = keys[4], fair = keys[5],
    patience = keys[6], channel = keys[7] }

clock()
local mine = record_new(ttl, reserve, inbox, number, details, kind, '1')

local function take(fresh)
    if not grant(mine) then
        return corrupt()
    end
    mutex_own(me, mine, 0)
    if fresh then
        call('PEXPIRE', K.info, ttl)
    else
        raise_ttl(K.info, ttl)
    end
    return reply_granted(mine)
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

-- After what time a waiter asks again if the fair head is a Redisson client (ms).
local FOREIGN_MS = 1000

local function wait(pttl, foreign)
    if try or kind == 'm' then
        return wait_in_queue(pttl, foreign)
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
        return wait(FOREIGN_MS, true)
    end
    return take()
end

if kind == 'f' then
    fair_evict()
end
look()
if not holder then
    return take_next(found[2], found[3])
elseif holder ~= me then
    return wait(call('PTTL', K.name), not found[4])
elseif not known or known.state ~= 'h' then
    return take()
end
call('PEXPIRE', K.name, ttl)
raise_ttl(K.info, ttl)
known.ttl = ttl
return reply_granted(known)
