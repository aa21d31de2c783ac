-- SPDX-License-Identifier: MIT
-- The count-down latch, Redisson's: a counter, gone when it is open. INFO has #kind l
-- for one of ours; `opened` the waiters that were told, for those who ask again.

local OPENED_MS, LATCH_MS = 60000, 86400000

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
