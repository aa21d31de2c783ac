-- SPDX-License-Identifier: MIT
-- The words every script is made of: the clock, records, messages to waiters, tokens.
-- K holds the keys by name; each script fills it in.

local call = redis.call
local K = {}

-- An open round: after so many grants in a row from release to release, Redisson's
-- waiters get this long a start (milliseconds).
local RUN_MAX, OPEN_MS = 8, 20

-- A queue nobody in it has asked about for so long is of the dead (milliseconds).
local QUEUE_MS = 120000

-- So much longer than its last lease a semaphore lives that nobody comes for.
local KEEP_MS = 86400000

-- Epoch of the server, in milliseconds and microseconds, as numbers and as text; read
-- once, when needed.
local now, now_us, now_text, now_us_text
local function clock()
    if not now then
        local time = call('TIME')
        now_us = time[1] * 1000000 + time[2]
        now = math.floor(now_us / 1000)
        local micros = string.format('%06d', time[2])
        now_us_text = time[1] .. micros
        now_text = time[1] .. string.sub(micros, 1, 3)
    end
end

-- Lua's own conversion would write large numbers as 1.7e+15.
local function text(number)
    return string.format('%.0f', number)
end

local function mismatch(what)
    return redis.error_reply('HOLDFAST mismatch ' .. what)
end

local function corrupt()
    return redis.error_reply('HOLDFAST corrupt token')
end

-- The record of an owner in INFO. Numbers stay text but for `since`.
local RECORD = '^(%a) (%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (.*)$'

local function record_read(line)
    if not line then
        return nil
    end
    local state, kind, permits, ttl, reserve, token, span, since, inbox, number, details =
        string.match(line, RECORD)
    return state and { state = state, kind = kind, permits = permits, ttl = ttl,
        reserve = reserve, token = token, span = span, since = since, inbox = inbox,
        number = number, details = details }
end

local function record_write(r)
    return r.state .. ' ' .. r.kind .. ' ' .. r.permits .. ' ' .. r.ttl .. ' ' ..
        r.reserve .. ' ' .. r.token .. ' ' .. r.span .. ' ' .. r.since .. ' ' ..
        r.inbox .. ' ' .. r.number .. ' ' .. r.details
end

-- A record as the arguments of a take give it.
local function record_new(ttl, reserve, inbox, number, details, kind, permits)
    return { state = 'w', kind = kind, permits = permits, ttl = ttl, reserve = reserve,
        token = '0', span = '0', since = now_text, inbox = inbox, number = number,
        details = details }
end

-- False if nobody listens: the client is gone.
local function push(r, letter, owner, rest)
    local line = letter .. ' ' .. r.number .. ' ' .. owner .. (rest or '')
    return call('PUBLISH', r.inbox, line) > 0
end

-- Token numbers follow the clock, so that they grow after a restart that lost them,
-- too. Several at once only while the clock is ahead: the counter then never runs away
-- from it. One GETSET, because the clock nearly always is. `reserve` is text.
local TOKEN_MAX = 2 ^ 53 - 2 ^ 20

local function draw_token(reserve)
    clock()
    local old = redis.pcall('GETSET', K.token, text(now_us + reserve - 1))
    if not old then
        return now_us_text, reserve
    elseif type(old) == 'table' and not string.find(old.err, 'WRONGTYPE', 1, true) then
        call('GETSET', K.token, now_us_text) -- no memory, a replica: in its own words
    end
    local last = type(old) == 'string' and string.match(old, '^%d+$') and tonumber(old)
    if last and last < now_us then
        return now_us_text, reserve
    elseif last and last < TOKEN_MAX then
        call('SET', K.token, text(last + 1))
        return text(last + 1), '1'
    elseif type(old) == 'string' then
        call('SET', K.token, old)
    end
    return nil
end

-- Makes r a holder's record: true. Nil: no token to be had.
local function grant(r)
    local token, span = draw_token(r.reserve)
    if not token then
        return nil
    end
    if K.token_ms then
        call('PEXPIRE', K.token, text(K.token_ms + r.ttl))
    end
    r.state, r.token, r.span, r.since = 'h', token, span, now_text
    return true
end

-- Tells a waiter other than the one who asks (me) that it holds. It believes that, so it
-- is the last thing to do. False if it is dead: then its hold must be taken back.
local function push_grant(owner, r, me)
    return owner == me or push(r, 'g', owner,
        ' ' .. r.token .. ' ' .. r.span .. ' ' .. r.ttl .. ' ' .. r.since)
end

-- Writes a hold by `write`. If the server refuses a part of that (an ACL forbids one of
-- the commands), `undo` takes the rest back: without its lease it would stay for ever.
local function write_or_undo(write, undo, owner, r, run)
    local good, why = pcall(write, owner, r, run)
    if not good then
        undo(owner, r)
        error(why, 0)
    end
end

local function reply_granted(r)
    return { 1, tonumber(r.token), tonumber(r.span), tonumber(r.ttl), now }
end

-- Raises the TTL of a key; never lowers it.
local function raise_ttl(key, ms)
    if call('PTTL', key) < tonumber(ms) then
        call('PEXPIRE', key, ms)
    end
end

-- The lock is free, so whoever INFO says holds it has lost it by expiry.
local function forget_holders()
    local fields = call('HGETALL', K.info)
    for i = 1, #fields, 2 do
        if string.sub(fields[i + 1], 1, 2) == 'h ' then
            call('HDEL', K.info, fields[i])
        end
    end
end

-- Removes INFO when only notes (#...) are left: no client holds or waits. A note that
-- says that the counter is a latch or a semaphore stays as long as the counter does.
local function tidy()
    if call('HLEN', K.info) > 8 or call('HEXISTS', K.info, '#kind') == 1 and
        call('EXISTS', K.name) == 1 then
        return
    end
    for _, field in ipairs(call('HKEYS', K.info)) do
        if string.sub(field, 1, 1) ~= '#' then
            return
        end
    end
    call('DEL', K.info, K.queue)
end
