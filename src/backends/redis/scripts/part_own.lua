-- SPDX-License-Identifier: MIT
-- Mutex and fair lock, Redisson's RLock and FairLock: a hash with the owner as its only
-- field. They share the name, but each has its own queue: QUEUE for m; for f Redisson's
-- list and zset, a queue of holdfast's and Redisson's clients.
--
-- INFO also has: #last the owner of the latest grant (whose record is stale once the
-- key has expired), #run grants in a row, #open end of an open round, #keep until when
-- QUEUE and INFO live at least.
--
-- Here is what take_mutex and withdraw_mutex paste; the rest is in part_mutex. Both
-- need part_base and part_queue.

-- Writes a hold. False if the server refuses PEXPIRE (an ACL): without its lease the
-- hold would never end, so nothing of it stays.
local function mutex_write(owner, r, run)
    call('HSET', K.name, owner, '1')
    local leased = redis.pcall('PEXPIRE', K.name, r.ttl) == 1
    if leased then
        local record = record_write(r)
        call('HSET', K.info, owner, record, '#last', owner, '#run', run)
    else
        redis.pcall('HDEL', K.name, owner)
    end
    return leased
end

-- Grants the caller (me) the lock, which is free, or which it holds. Returns the reply.
-- `fresh`: INFO did not exist.
local function mutex_take(me, mine, fresh)
    local reply
    local token = grant(mine)
    if not token then
        reply = corrupt()
    else
        local written = mutex_write(me, mine, '0')
        if not written then
            -- Fails with the server's error.
            call('PEXPIRE', K.name, mine.ttl)
        elseif fresh then
            call('PEXPIRE', K.info, mine.ttl)
        else
            raise_ttl(K.info, mine.ttl)
        end
        reply = reply_granted(mine)
    end
    return reply
end

-- Lets the caller (me) wait in QUEUE, behind the fair queue. Returns the reply. `kept`
-- is #keep: if all waiters ask again before that, a new one extends nothing.
local function mutex_wait(me, mine, known, kept, pttl, foreign)
    local place = queue_place(me, known)
    local record = waiter_record(mine, known)
    if known or place == 0 or tonumber(mine.ttl) > ASK_MS or
        (tonumber(kept) or 0) < now + QUEUE_MS - ASK_MS then
        local keep = text(now + QUEUE_MS)
        call('HSET', K.info, me, record, '#keep', keep)
        call('PEXPIRE', K.queue, QUEUE_MS)
        raise_ttl(K.info, mine.ttl + QUEUE_MS)
    else
        call('HSET', K.info, me, record)
    end
    foreign = foreign and place == 0
    place = place + call('LLEN', K.fair)
    return { 2, pttl, place, foreign and 1 or 0, now }
end

-- Removes the first waiter of QUEUE. Returns it, its record, and the hand-off run.
local function mutex_next()
    local owner, r, run, found
    repeat
        owner = call('LPOP', K.queue)
        if owner then
            found = call('HMGET', K.info, owner, '#run')
            r = record_read(found[1])
            run = tonumber(found[2]) or 0
            found = r and r.state == 'w' and r.kind == 'm'
            if not found and r and r.state == 'w' then
                push(r, 'n', owner)
            end
        end
    until found or not owner
    return owner, r, run
end

-- Puts the waiter back that mutex_next() removed. QUEUE has lost its TTL if that was the
-- only one.
local function mutex_put_back(owner)
    call('LPUSH', K.queue, owner)
    redis.pcall('PEXPIRE', K.queue, QUEUE_MS)
end

-- A hand-off run that is over begins anew if no client waits but those of QUEUE.
-- K.listeners: how many clients of Redisson were notified.
local function run_restart(run)
    if run >= RUN_MAX and call('EXISTS', K.fair) == 0 then
        K.listeners = K.listeners or call('PUBLISH', K.channel, '0')
        run = K.listeners == 0 and 0 or run
    end
    return run
end

-- Sends the grant, or takes the hold back if the client is not connected: false.
local function mutex_push(owner, r, run, me)
    local sent = push_grant(owner, r, me)
    if not sent then
        redis.pcall('HDEL', K.name, owner)
        redis.pcall('HDEL', K.info, owner)
        call('HSET', K.info, '#run', run)
    end
    return sent
end

-- Grants the lock to the waiter that mutex_next() returned: true. False if its client
-- is not connected: it is removed. Nil if there is no token: it is the first of QUEUE
-- again.
local function queue_pass(owner, r, run, me)
    local written, sent
    local token = grant(r)
    if token then
        local longer = text(run + 1)
        written = mutex_write(owner, r, longer)
    end
    if written then
        sent = mutex_push(owner, r, run, me)
    else
        mutex_put_back(owner)
    end
    if token and not written then
        -- Fails with the server's error.
        call('PEXPIRE', K.name, r.ttl)
    end
    return sent
end

-- No client waits: deletes what is left, and notifies Redisson's clients.
local function mutex_free()
    call('DEL', K.info)
    call('PUBLISH', K.channel, '0')
end
