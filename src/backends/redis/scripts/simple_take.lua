-- SPDX-License-Identifier: MIT
-- uses: base, queue, drain, simple
-- Takes a lock of the simple layout (SET NX PX), or queues for it.
--
-- KEYS  name, token, INFO, QUEUE
-- ARGV  id, ttl ms, reserve, inbox, slot, details, flags (t: try)
-- reply as take_mutex; foreign: the holder is another library's, which tells nobody
--       when it lets go, so ask from time to time

K.name, K.token, K.info, K.queue = unpack(KEYS)
K.token_ms = TOKEN_MS
local me, ttl, reserve, inbox, slot, details, flags = unpack(ARGV)

clock()
local mine = record_new(ttl, reserve, inbox, slot, details, 'm', '1')

local function take()
    if not give(me, mine, me) then
        return corrupt()
    end
    simple_own(me, mine)
    keep(K.info, ttl)
    return granted(mine)
end

if call('EXISTS', K.name, K.info, K.queue) == 0 then
    return take()
end
local value = redis.pcall('GET', K.name)
if type(value) == 'table' then
    return mismatch('not a plain lock')
end
local found = call('HMGET', K.info, me, value or '')
local known = record_read(found[1])
if value == me and known and known.state == 'h' then
    call('PEXPIRE', K.name, ttl)
    keep(K.info, ttl)
    known.ttl = ttl
    return granted(known)
elseif value == me then
    return take()
elseif not value then
    forget_holders()
    local _, in_too, no_token = drain(simple_fits, simple_own, me)
    if no_token then
        return corrupt()
    elseif in_too then
        keep(K.info, ttl)
        return granted(record_read(call('HGET', K.info, me)))
    elseif not taken then
        return take()
    end
end
local pttl = call('PTTL', K.name)
if string.find(flags, 't', 1, true) then
    return { 3, pttl }
end
local foreign = value and not found[2]
local place = enqueue(me, mine, known)
return { 2, pttl, place, foreign and place == 0 and 1 or 0, now }
