-- SPDX-License-Identifier: MIT
-- uses: base, names, queue, own, mutex, drain, rw, count, simple
-- Takes a lock from the holder of a token and grants it to the next waiter. The
-- holder's client gets a message.
--
-- KEYS  name, token, INFO, QUEUE, fair queue, fair timeouts, channels of lock,
--       read-write lock and semaphore, zsets of permits and of expiring permits, the
--       answer under this id
-- ARGV  token, layout (s: simple, else Redisson's), y if the holder's client answers
--       that the token holds now, x if it answers that another does, f if it was asked
--       and did not answer, id of the request, details of the evicting client
-- reply 1, or 0 if no holder has that token; 2: the holder's client was asked which of
--       its tokens holds, ask again
--
-- A Redisson client that holds a mutex is identified by the number in the token key,
-- which its fenced lock was given.

K.name, K.token, K.info, K.queue, K.fair, K.patience = unpack(KEYS, 1, 6)
K.token_ms = ARGV[2] == 's' and TOKEN_MS
local token, confirmed = tonumber(ARGV[1]), ARGV[3] == 'y'
local id, details = ARGV[4], ARGV[5]
local done = KEYS[12]

local function mutex_drop(owner, r)
    if redis.pcall('HDEL', K.name, owner) ~= 1 then
        return false
    end
    mutex_release(owner, r.kind)
    return true
end

local drop = {
    m = { KEYS[7], ARGV[2] == 's' and simple_drop or mutex_drop },
    f = { KEYS[7], mutex_drop },
    r = { KEYS[8], function(owner) return rw_drop(owner, 'r') end },
    w = { KEYS[8], function(owner) return rw_drop(owner, 'w') end },
    p = { KEYS[9], count_drop, KEYS[10] },
    e = { KEYS[9], count_drop, KEYS[11] },
}

-- For a mutex that its client may have handed off: true if that client was asked, or if
-- the token is not the one in the record.
local function must_ask(owner, r)
    if confirmed or r.span == '1' or ARGV[3] == 'f' and r.token == ARGV[1] then
        return false
    end
    local line = ' ' .. ARGV[1] .. ' ' .. r.token .. ' ' .. id .. ' ' .. details
    local asked = push(r, 'e', owner, line)
    return asked or r.token ~= ARGV[1]
end

local function is_held(owner, r)
    return r.kind ~= 'm' or redis.pcall('HEXISTS', K.name, owner) == 1
        or redis.pcall('GET', K.name) == owner
end

local answer = call('GET', done)
if answer then
    return tonumber(answer)
elseif ARGV[3] == 'x' then
    call('SET', done, 0, 'PX', ANSWER_MS)
    return 0
end
local fields = call('HGETALL', K.info)
for i = 1, #fields, 2 do
    local owner, r = fields[i], record_read(fields[i + 1])
    local first = r and r.state == 'h' and tonumber(r.token)
    if first and token >= first and token < first + tonumber(r.span) then
        if is_held(owner, r) and must_ask(owner, r) then
            return 2
        end
        K.channel, K.zset, kind = drop[r.kind][1], drop[r.kind][3], r.kind
        if not drop[r.kind][2](owner, r) then
            return 0
        end
        if K.zset then
            count_release()
        end
        if not confirmed then
            push(r, 'l', owner, ' ' .. details)
        end
        call('SET', done, 1, 'PX', ANSWER_MS)
        return 1
    end
end

-- A mutex held by Redisson: a hash with one field, which has no record.
local hash = redis.pcall('HGETALL', K.name)
if #hash == 2 and hash[1] ~= 'mode' and call('HEXISTS', K.info, hash[1]) == 0
    and call('GET', K.token) == ARGV[1] then
    K.channel = KEYS[7]
    if mutex_drop(hash[1], { kind = 'm' }) then
        call('SET', done, 1, 'PX', ANSWER_MS)
        return 1
    end
end
return 0
