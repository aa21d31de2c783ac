-- SPDX-License-Identifier: MIT
-- The plain lock of many libraries: a string with the owner's random value and a TTL.
-- The value is the ticket's id, and the owner in QUEUE and INFO too.

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
