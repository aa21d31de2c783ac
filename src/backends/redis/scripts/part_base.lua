-- SPDX-License-Identifier: MIT
-- uses: values
-- What every script uses: the clock, records, messages to waiters, tokens.

K = K or {}

-- Reads the server's clock, once, when needed.
local function clock()
    if not now then
        local time = call('TIME')
        local micros = string.format('%06d', time[2])
        now_us_text = time[1] .. micros
        now_text = string.sub(now_us_text, 1, -4)
        now = now_text + 0
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

-- The fields of an owner's record in INFO; nil if it is no record. Numbers stay text.
local function record_read(line)
    local r
    if line then
        local state, kind, permits, ttl, reserve, token, span, since, inbox, number,
            details = string.match(line, RECORD)
        r = state and { state = state, kind = kind, permits = permits, ttl = ttl,
            reserve = reserve, token = token, span = span, since = since,
            inbox = inbox, number = number, details = details }
    end
    return r
end

local function record_write(r)
    return r.state .. ' ' .. r.kind .. ' ' .. r.permits .. ' ' .. r.ttl .. ' ' ..
        r.reserve .. ' ' .. r.token .. ' ' .. r.span .. ' ' .. r.since .. ' ' ..
        r.inbox .. ' ' .. r.number .. ' ' .. r.details
end

-- The record of a new waiter, from the arguments of a take script.
local function record_new(ttl, reserve, inbox, number, details, kind, permits)
    clock()
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
local function draw_token(reserve)
    clock()
    local now_us, last = now_us_text + 0, now_us_text
    local token, span = now_us_text, reserve
    if reserve ~= '1' then
        last = text(now_us + reserve - 1)
    end
    local old = redis.pcall('GETSET', K.token, last)
    if type(old) == 'table' and not string.find(old.err, 'WRONGTYPE', 1, true) then
        -- Out of memory, a replica: fails with the server's error.
        call('GETSET', K.token, last)
    end
    local before = not old and 0 or
        type(old) == 'string' and string.find(old, '^[0-9]+$') and tonumber(old)
    if not before or before >= now_us and before >= TOKEN_MAX then
        token = nil
        if type(old) == 'string' then
            call('SET', K.token, old)
        end
    elseif before >= now_us then
        token = text(before + 1)
        span = '1'
        call('SET', K.token, token)
    end
    return token, span
end

-- Makes r a holder's record and returns its token. Nil: there is no token.
local function grant(r)
    local token, span = draw_token(r.reserve)
    if token and K.token_ms then
        local left = text(K.token_ms + r.ttl)
        call('PEXPIRE', K.token, left)
    end
    if token then
        r.state, r.token, r.span, r.since = 'h', token, span, now_text
    end
    return token
end

-- Sends the grant to the waiter, unless it is the caller (me), which gets a reply. The
-- waiter believes the message, so it is the last step. False if the client is not
-- connected: then the caller must take the hold back.
local function push_grant(owner, r, me)
    local sent = owner == me
    if not sent then
        local rest = ' ' .. r.token .. ' ' .. r.span .. ' ' .. r.ttl .. ' ' .. r.since
        sent = push(r, 'g', owner, rest)
    end
    return sent
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
        if string.find(fields[i + 1], '^h ') then
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
