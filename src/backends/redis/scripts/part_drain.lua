-- SPDX-License-Identifier: MIT
-- Grants from the head of QUEUE, for locks that several clients may hold.

-- Writes a hold by `write`. If the server refuses a command of it (an ACL), `undo`
-- takes the others back: without its lease the hold would never end.
local function write_or_undo(write, undo, owner, r, run)
    local good, why = pcall(write, owner, r, run)
    if not good then
        undo(owner, r)
        error(why, 0)
    end
end

-- By own function: the function that takes its change back.
local undo = {}

-- Grants to the first waiter while it fits: fits(r) checks the state, own(owner, r)
-- writes the hold. Returns how many grants there were, not counting dead waiters;
-- whether the caller (me) was granted; whether there was no token.
local function drain(fits, own, me)
    local count, in_too = 0, false
    while true do
        local owner, r = queue_head()
        if not owner or not fits(r) then
            return count, in_too
        end
        if not grant(r) then
            return count, in_too, true
        end
        own(owner, r)
        call('LPOP', K.queue)
        if push_grant(owner, r, me) then
            count = count + 1
            in_too = in_too or owner == me
        else
            undo[own](owner, r)
        end
    end
end

-- After a release: an open round if one is due, otherwise grants. True if Redisson's
-- waiters were notified already.
local function drain_release(fits, own, payload)
    local run = tonumber(call('HGET', K.info, '#run') or 0)
    if run >= RUN_MAX and queue_head() then
        if open_round(payload) then
            return true
        end
        run = 0
    end
    local count = drain(fits, own)
    if count > 0 then
        call('HSET', K.info, '#run', run + count)
    end
    return false
end
