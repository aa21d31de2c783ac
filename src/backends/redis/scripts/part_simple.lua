-- SPDX-License-Identifier: MIT
-- The plain lock of many libraries: a string with the owner's random value and a TTL.
-- The value is the ticket's id, and the owner in QUEUE and INFO too.

-- So much longer than the lease the last token is remembered. Numbers follow the clock,
-- so that the next one is larger all the same, unless the clock was set back by more. In
-- Redisson's layout it stays for ever: its fenced lock counts on from there, and would
-- begin again with 1.
local TOKEN_MS = 86400000

local taken

local function simple_fits(r)
    return r.kind == 'm' and not taken
end

local function simple_own(owner, r)
    call('SET', K.name, owner, 'PX', r.ttl)
    call('HSET', K.info, owner, record_write(r))
    taken = true
end

undo[simple_own] = function(owner)
    call('DEL', K.name)
    call('HDEL', K.info, owner)
    taken = false
end

-- Gives the lock up if it is owner's: true; the next one has it.
local function simple_drop(owner)
    if redis.pcall('GET', K.name) ~= owner then
        return false
    end
    call('DEL', K.name)
    call('HDEL', K.info, owner)
    taken = false
    drain(simple_fits, simple_own)
    return true
end
