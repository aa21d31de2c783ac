-- SPDX-License-Identifier: MIT
-- uses: base, queue, drain, simple
-- Takes a lock of the simple layout (SET NX PX), or queues for it.
--
-- KEYS  name, token, INFO, QUEUE
-- ARGV  id, ttl ms, reserve, inbox, number, details, flags (t: try)
-- reply as take_mutex; foreign: the holder is a foreign client, which releases without
--       a message, so poll; above 1: after so many milliseconds

K.name, K.token, K.info, K.queue = unpack(KEYS)
K.token_ms = TOKEN_MS
local me, ttl, reserve, inbox, number, details, flags = unpack(ARGV)

clock()
local mine = record_new(ttl, reserve, inbox, number, details, 'm', '1')

local function take()
    if not grant(mine) then
        return corrupt()
    end
    simple_own(me, mine)
    raise_ttl(K.info, ttl)
    return reply_granted(mine)
end

if call('EXISTS', K.name, K.info, K.queue) == 0 then
    return take()
end
local value = redis.pcall('GET', K.name)
if type(value) == 'table' then
    return mismatch('not a plain lock')
end
local found = call('HMGET', K.info, me, value or '', '#open', '#empty', '#who')
local known = record_read(found[1])
if value == me and known and known.state == 'h' then
    call('PEXPIRE', K.name, ttl)
    raise_ttl(K.info, ttl)
    known.ttl = ttl
    return reply_granted(known)
elseif value == me then
    return take()
end

local function wait(pttl, foreign)
    if string.find(flags, 't', 1, true) then
        return { 3, pttl }
    end
    local place = enqueue(me, mine, known)
    return { 2, pttl, place, place == 0 and foreign or 0, now }
end

local left, seen = window_left(found[3]), found[5]
if not value then
    local head = queue_head()
    if left > 0 and head and not seen then
        local empty = tonumber(found[4]) or EMPTY_MAX
        return wait(head == me and window_look_ms(left, empty) or left, 0)
    end
    forget_holders()
    local _, in_too, no_token = drain(simple_fits, simple_own, me)
    if no_token then
        return corrupt()
    elseif in_too then
        raise_ttl(K.info, ttl)
        return reply_granted(record_read(call('HGET', K.info, me)))
    elseif not taken then
        return take()
    end
end
local pttl = call('PTTL', K.name)
if not value or found[2] then
    return wait(pttl, 0)
elseif seen == value then
    return wait(pttl, 1)
end
-- A foreign client, and not the one seen before. Foreign clients that take the lock
-- again and again leave it free for moments only, and starve each other too: the first
-- waiter of ours polls fast to take the lock in such a moment, which ends that.
local reply = wait(pttl, (seen or left > 0) and LOOK_FOREIGN or 1)
if reply[1] == 2 then
    call('HSET', K.info, '#who', value, '#empty', 0)
end
return reply
