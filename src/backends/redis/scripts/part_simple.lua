-- SPDX-License-Identifier: MIT
-- The simple lock of many libraries: a string with the owner's random value and a TTL.
-- The value is the ticket's id, and also the owner in QUEUE and INFO.
--
-- Foreign clients, those of other libraries, poll and leave no trace while they wait.
-- If every release granted to the next of QUEUE they would starve. So after some time
-- of hand-offs there is a window: the key stays free, and no waiter of ours takes it,
-- for long enough that the slowest foreign client polls once. Windows come more often
-- while foreign clients are seen in them.
--
-- INFO also has: #shut since when there was no window, #open the end of the window,
-- #empty how many windows in a row saw no foreign client, #who the value of the foreign
-- client seen last (in a window: since it was opened).

-- The last token is kept for so long after the lease. Tokens follow the clock, so the
-- next one is larger even without it, unless the clock was set back by more than that.
-- In Redisson's layout the token never expires: Redisson's fenced lock counts on from
-- it, and would start again with 1.
local TOKEN_MS = 86400000

local taken

-- Milliseconds: length of a window; time of hand-offs before the first window, before
-- the next if no foreign client was seen, and if one was seen; until the first waiter
-- asks in a window, in these two cases; until it asks if foreign clients hold one after
-- another. And after how many windows without a foreign client there are taken to be
-- none.
local WINDOW, SHUT_FIRST, SHUT, SHUT_SEEN = 300, 600, 2300, 150
local LOOK, LOOK_SEEN, LOOK_FOREIGN, EMPTY_MAX = 150, 20, 2, 3

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

-- What is left of the window, 0 if there is none; ends a window that is over. If it
-- seems to last longer than WINDOW the clock was set back: it is over.
local function window_left(open)
    local left = (tonumber(open) or 0) - now
    if left > 0 and left <= WINDOW then
        return left
    elseif open then
        call('HDEL', K.info, '#open')
        call('HSET', K.info, '#shut', now_text)
    end
    return 0
end

-- The lock is free and a client of ours waits: opens a window if one is due. Returns
-- what is left of the window, or 0, and #empty.
local function window_due()
    clock()
    local found = call('HMGET', K.info, '#open', '#shut', '#empty')
    local left, empty = window_left(found[1]), tonumber(found[3]) or EMPTY_MAX
    if left > 0 then
        return left, empty
    end
    local shut = not found[1] and found[2] and now - tonumber(found[2])
    if not shut or shut < 0 then
        call('HSET', K.info, '#shut', text(now - (found[2] and 0 or SHUT - SHUT_FIRST)))
    elseif shut >= (empty < EMPTY_MAX and SHUT_SEEN or SHUT) then
        empty = math.min(empty + 1, EMPTY_MAX)
        call('HSET', K.info, '#open', text(now + WINDOW), '#empty', empty)
        return WINDOW, empty
    end
    return 0, empty
end

-- After what time the first of QUEUE asks in a window.
local function window_look_ms(left, empty)
    return math.min(left, empty < EMPTY_MAX and LOOK_SEEN or LOOK)
end

-- Sends the first three waiters the time to ask: the first one, and in case it dies the
-- next ones a moment later.
local function window_notify(left, empty)
    queue_head()
    local wait = window_look_ms(left, empty)
    for i, owner in ipairs(call('LRANGE', K.queue, 0, 2)) do
        local r = record_read(call('HGET', K.info, owner))
        if r then
            push(r, 'w', owner, ' ' .. text(i == 1 and wait or left + LOOK_SEEN * (i - 1)))
        end
    end
end

-- Releases the lock if owner holds it: true. The next waiter is granted it, or a window
-- opens if there may be foreign clients (`foreign`) and a window is due.
local function simple_drop(owner, _, foreign)
    if redis.pcall('GET', K.name) ~= owner then
        return false
    end
    call('DEL', K.name)
    call('HDEL', K.info, owner)
    taken = false
    if foreign and queue_head() then
        local left, empty = window_due()
        if left > 0 then
            call('HDEL', K.info, '#who')
            window_notify(left, empty)
            return true
        end
    end
    if drain(simple_fits, simple_own) == 0 then
        tidy()
    end
    return true
end
