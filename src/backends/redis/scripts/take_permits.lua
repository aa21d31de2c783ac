-- SPDX-License-Identifier: MIT
-- uses: base, names, queue, drain, count
-- Takes permits of a semaphore, or queues for them, in order of arrival: a waiter for
-- many permits is not overtaken by waiters for few.
--
-- KEYS  name, token, INFO, QUEUE, channel, zset of deadlines
-- ARGV  owner, ttl ms, reserve, inbox, number, details, flags (t: try), kind (p or e),
--       permits (e: 1), limit
-- reply as take_mutex; pttl: when the first lease ends, -1 if no permit has a lease

K.name, K.token, K.info, K.queue, K.channel, K.zset = unpack(KEYS)
local me, ttl, reserve, inbox, number, details, flags, _, permits, limit = unpack(ARGV)
kind = ARGV[8]

clock()
free = count_read()
if free == false then
    return mismatch('not a semaphore')
end
local found = call('HMGET', K.info, me, '#kind', '#limit', '#made', '#open', '#held')
local known = record_read(found[1])

-- The caller holds already: a fresh lease.
local score = call('ZSCORE', K.zset, member(me))
if score and tonumber(score) > now and known and known.state == 'h' then
    call('ZADD', K.zset, text(now + ttl), member(me))
    known.ttl = ttl
    count_extend(ttl)
    return reply_granted(known)
end

local idle = false
if free and found[2] and found[2] ~= kind then
    return mismatch('another kind of counter')
end
if free then
    count_reclaim()
    idle = call('EXISTS', K.queue, K.zset) == 0
    if kind == 'e' and (tonumber(found[6]) or 0) ~= call('ZCARD', K.zset) then
        count_purge()
    end
end
local made = found[4]
if not free then
    -- New, or the counter was deleted while permits are held, which stay held.
    free = tonumber(limit) - count_alive()
    call('SET', K.name, text(free))
    made = '1'
    call('HDEL', K.info, '#keep')
    call('HSET', K.info, '#kind', kind, '#made', made, '#limit', limit)
elseif made and found[3] ~= limit then
    if not idle or free ~= tonumber(found[3]) then
        return mismatch('the limit is ' .. found[3])
    end
    free = tonumber(limit)
    call('SET', K.name, limit)
    call('HDEL', K.info, '#keep')
    call('HSET', K.info, '#limit', limit)
elseif not found[2] then
    call('HSET', K.info, '#kind', kind)
end

local mine = record_new(ttl, reserve, inbox, number, details, kind, permits)

local function wait(pttl, foreign)
    if string.find(flags, 't', 1, true) then
        return { 3, pttl }
    end
    local place = enqueue(me, mine, known, true)
    count_extend(ttl)
    if foreign == nil and place == 0 then
        foreign = count_foreign(made, limit, tonumber(call('HGET', K.info, '#held')) or 0)
    end
    return { 2, pttl, place, place == 0 and foreign and 1 or 0, now }
end

local left = open_left(found[5])
if left > 0 then
    return wait(left, true)
end
local _, in_too, no_token = drain(count_fits, count_own, me)
if no_token then
    return corrupt()
elseif in_too then
    count_extend(ttl)
    return reply_granted(record_read(call('HGET', K.info, me)))
elseif count_fits(mine) and call('EXISTS', K.queue) == 0 then
    if not grant(mine) then
        count_release()
        return corrupt()
    end
    count_own(me, mine)
    count_extend(ttl)
    return reply_granted(mine)
end
local soonest = call('ZRANGE', K.zset, 0, 0, 'WITHSCORES')[2]
return wait(soonest and math.max(0, tonumber(soonest) - now) or -1)
