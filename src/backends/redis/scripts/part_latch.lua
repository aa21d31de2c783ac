-- SPDX-License-Identifier: MIT
-- The count-down latch, Redisson's: a counter, gone when it is open. INFO has #kind l
-- for one of ours; `opened` the waiters that were told, for those who ask again.

-- How long it is remembered who was told; that a counter is a latch, since the last time
-- that one of ours touched it (Redisson may open it without a word to us).
local OPENED_MS, LATCH_MS = 60000, 3600000

-- What is left; nil if it is open, false if the name is something else.
local function latch_read()
    local value = redis.pcall('GET', K.name)
    local number = type(value) == 'string' and string.match(value, '^%d+$')
    if not value then
        return nil
    end
    local kind = call('HGET', K.info, '#kind')
    return number and (not kind or kind == 'l') and tonumber(number) or false
end

-- Notes that a counter is a latch, for whoever looks.
local function latch_note()
    call('HSET', K.info, '#kind', 'l')
    raise_ttl(K.info, LATCH_MS)
end

-- Tells everybody who waits.
local function latch_open()
    for _, owner in ipairs(call('LRANGE', K.queue, 0, -1)) do
        local r = record_read(call('HGET', K.info, owner))
        if r then
            push(r, 'o', owner)
            call('SADD', K.opened, owner)
        end
    end
    call('PEXPIRE', K.opened, OPENED_MS)
    call('DEL', K.queue, K.info)
end
