-- SPDX-License-Identifier: MIT
-- The plain lock of many libraries: a string with the owner's random value and a TTL.
-- The value is the ticket's id, and the owner in QUEUE and INFO too.
--
-- Strangers, clients of those libraries, ask again and again and leave no trace while
-- they wait. A release that always grants to the next of QUEUE would shut them out, so
-- that after a while of that the key is left open for a moment in which no waiter of ours
-- takes it: long enough for the slowest of them to ask once. They are met more often as
-- long as such a window finds somebody.
--
-- INFO also has: #shut since when there was no window, #open the end of the window,
-- #empty windows in a row in which nobody was seen, #who the stranger seen last (since
-- the window was opened, if there is one).

-- So much longer than the lease the last token is remembered. Numbers follow the clock,
-- so that the next one is larger all the same, unless the clock was set back by more. In
-- Redisson's layout it stays for ever: its fenced lock counts on from there, and would
-- begin again with 1.
local TOKEN_MS = 86400000

local taken

-- Milliseconds: the window; hand-overs before the first one, before each where nobody was
-- seen, and where somebody was; a look at the window in either case; a look at strangers that come one after
-- another. And the windows after which strangers are taken to be gone.
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

-- What is left of the window, 0 if there is none; one that is over is closed. The clock
-- may have been set back: a window is never longer than it was made.
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

-- Somebody waits, and the lock is free: whether it stays so for a while.
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

-- How long the first of QUEUE leaves a window alone.
local function window_look_ms(left, empty)
    return math.min(left, empty < EMPTY_MAX and LOOK_SEEN or LOOK)
end

-- The first waiters are told when to look: the first one, and if that dies the next.
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

-- Gives the lock up if it is owner's: true; the next one has it, or the first who comes
-- if `strangers` may be there and it is their turn.
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
