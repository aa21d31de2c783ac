-- SPDX-License-Identifier: MIT
-- What is written once for all scripts: constants, keys, the time.

local call = redis.call

-- The keys by name; each script fills it in.
local K

-- After a hand-off run of RUN_MAX grants the lock is left open to Redisson's waiters
-- for OPEN_MS milliseconds.
local RUN_MAX, OPEN_MS = 8, 20

-- A queue expires when none of its waiters has asked for so long (milliseconds; text,
-- as the server takes long to make that of a number).
local QUEUE_MS = '120000'

-- A waiter asks again after so long in any case (milliseconds). This extends the TTL of
-- the queue's keys, and finds out that the holder's client has died.
local ASK_MS = 30000

-- The first waiter behind a Redisson client asks again after so long (milliseconds): a
-- spin lock's release and a downgrade send no message. It costs one small request.
local ASK_FOREIGN_MS = 1000

-- An unused semaphore is kept for so long after its last lease (milliseconds).
local KEEP_MS = 86400000

-- The answer to a change is kept for so long for a repeated request (milliseconds).
local ANSWER_MS = 60000

-- A token counter that is further is invalid: Lua counts up to 2^53.
local TOKEN_MAX = 2 ^ 53 - 2 ^ 20

-- The record of an owner in INFO, see record_read() of part_base. ([0-9] is what %d is,
-- and takes the server less time.)
local RECORD =
    '^(%a) (%a) ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+) (%S+) ([0-9]+) (.*)'

-- Epoch of the server, set by clock() of part_base: in milliseconds, as a number and as
-- text, and in microseconds.
local now, now_text, now_us_text
