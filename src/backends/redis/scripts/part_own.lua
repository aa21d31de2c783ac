-- SPDX-License-Identifier: MIT
-- Mutex and fair lock, Redisson's RLock and FairLock: a hash with the owner as its only
-- field. They share the name, but each has its own queue: QUEUE for m; for f Redisson's
-- list and zset, a queue of holdfast's and Redisson's clients.
--
-- INFO also has: #last the owner of the latest grant (whose record is stale once the
-- key has expired), #run grants in a row, #open end of an open round.
--
-- Only what nearly every run needs; the rest is in part_mutex, because the server needs
-- as much time to make a function as for a command.

local function mutex_write(owner, r, run)
    call('HSET', K.name, owner, 1)
    call('PEXPIRE', K.name, r.ttl)
    call('HSET', K.info, owner, record_write(r), '#last', owner, '#run', run)
end

local function mutex_undo(owner)
    redis.pcall('HDEL', K.name, owner)
    redis.pcall('HDEL', K.info, owner)
end

local function mutex_own(owner, r, run)
    write_or_undo(mutex_write, mutex_undo, owner, r, run)
end

-- Removes the first waiter of QUEUE. Returns it, its record, and the hand-off run.
local function mutex_next()
    while true do
        local owner = call('LPOP', K.queue)
        if not owner then
            return nil
        end
        local found = call('HMGET', K.info, owner, '#run')
        local r = record_read(found[1])
        if r and r.state == 'w' and r.kind == 'm' then
            return owner, r, tonumber(found[2]) or 0
        elseif r and r.state == 'w' then
            push(r, 'n', owner)
        end
    end
end
