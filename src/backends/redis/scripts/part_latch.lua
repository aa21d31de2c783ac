-- SPDX-License-Identifier: MIT
-- Redisson's count-down latch: a counter, deleted when the latch opens. INFO has #kind
-- l if holdfast made it; `opened` has the notified waiters, for those that ask again.

-- TTL of the note that a counter is a latch, from the last use by holdfast (Redisson
-- may open the latch without a message).
local LATCH_MS = 3600000

-- What is left; nil if the latch is open, false if the name is no latch.
local function latch_read()
    local value = redis.pcall('GET', K.name)
    local number = type(value) == 'string' and string.match(value, '^%d+$')
    if not value then
        return nil
    end
    local kind = call('HGET', K.info, '#kind')
    return number and (not kind or kind == 'l') and tonumber(number) or false
end

-- Notes that the counter is a latch, for inspection and for semaphores.
local function latch_note()
    call('HSET', K.info, '#kind', 'l')
    raise_ttl(K.info, LATCH_MS)
end

-- Notifies all waiters.
local function latch_open()
    for _, owner in ipairs(call('LRANGE', K.queue, 0, -1)) do
        local r = record_read(call('HGET', K.info, owner))
        if r then
            push(r, 'o', owner)
            call('SADD', K.opened, owner)
        end
    end
    call('PEXPIRE', K.opened, ANSWER_MS)
    call('DEL', K.queue, K.info)
end
