-- SPDX-License-Identifier: MIT
-- What every script uses: the clock, records, messages to waiters, tokens. K holds the
-- keys by name; each script fills it in.

local call = redis.call
local K = {}

-- After a hand-off run of RUN_MAX grants the lock is left open to Redisson's waiters
-- for OPEN_MS milliseconds.
local RUN_MAX, OPEN_MS = 8, 20

-- A queue expires when none of its waiters has asked for so long (milliseconds).
local QUEUE_MS = 120000

-- An unused semaphore is kept for so long after its last lease (milliseconds).
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

-- Lua's own conversion would write a large number as 1.7e+15.
local function text(number)
    return string.format('%.0f', number)
end

local function mismatch(what)
    return redis.error_reply('HOLDFAST mismatch ' .. what)
end

local function corrupt()
    return redis.error_reply('HOLDFAST corrupt token')
end

-- The record of an owner in INFO. Numbers stay text.
local RECORD = '^(%a) (%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (.*)$'

local function record_read(line)
    if not line then
        return nil
    end
    local state, kind, permits, ttl, reserve, token, span, since, inbox, number,
        details = string.match(line, RECORD)
    return state and { state = state, kind = kind, permits = permits, ttl = ttl,
        reserve = reserve, token = token, span = span, since = since, inbox = inbox,
        number = number, details = details }
end

local function record_write(r)
    return r.state .. ' ' .. r.kind .. ' ' .. r.permits .. ' ' .. r.ttl .. ' ' ..
        r.reserve .. ' ' .. r.token .. ' ' .. r.span .. ' ' .. r.since .. ' ' ..
        r.inbox .. ' ' .. r.number .. ' ' .. r.details
end

-- The record of a new waiter, from the arguments of a take script.
local function record_new(ttl, reserve, inbox, number, details, kind, permits)
    return { state = 'w', kind = kind, permits = permits, ttl = ttl, reserve = reserve,
        token = '0', span = '0', since = now_text, inbox = inbox, number = number,
        details = details }
end

-- Sends a message to the inbox. False if the client is not connected.
local function push(r, letter, owner, rest)
    local line = letter .. ' ' .. r.number .. ' ' .. owner .. (rest or '')
    return call('PUBLISH', r.inbox, line) > 0
end

-- Draws a block of `reserve` (text) tokens: the first token and the size of the block,
-- as text; nil if the counter is invalid. Tokens follow the server's clock, so they
-- also grow after a restart that lost them. A block is larger than one only if the
-- clock is ahead of the counter, so the counter never runs away from the clock. GETSET
-- alone is enough when the clock is ahead, as it nearly always is.
local TOKEN_MAX = 2 ^ 53 - 2 ^ 20

local function draw_token(reserve)
    clock()
    local old = redis.pcall('GETSET', K.token, text(now_us + reserve - 1))
    if not old then
        return now_us_text, reserve
    elseif type(old) == 'table' and not string.find(old.err, 'WRONGTYPE', 1, true) then
        -- Out of memory, a replica: fails with the server's error.
        call('GETSET', K.token, now_us_text)
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

-- Makes r a holder's record: true. Nil: there is no token.
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

-- Sends the grant to the waiter, unless it is the caller (me), which gets a reply. The
-- waiter believes the message, so it is the last step. False if the client is not
-- connected: then the caller must take the hold back.
local function push_grant(owner, r, me)
    return owner == me or push(r, 'g', owner,
        ' ' .. r.token .. ' ' .. r.span .. ' ' .. r.ttl .. ' ' .. r.since)
end

-- Writes a hold by `write`. If the server refuses a command of it (an ACL), `undo`
-- takes the others back: without its lease the hold would never end.
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

-- The lock is free, so the holders in INFO have expired.
local function forget_holders()
    local fields = call('HGETALL', K.info)
    for i = 1, #fields, 2 do
        if string.sub(fields[i + 1], 1, 2) == 'h ' then
            call('HDEL', K.info, fields[i])
        end
    end
end

-- Deletes INFO when only notes (#...) are left: no client holds or waits. The note that
-- the counter is a latch or a semaphore stays as long as the counter.
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
