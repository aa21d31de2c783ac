-- SPDX-License-Identifier: MIT
-- uses: base, names, queue, drain, rw
-- Gives a read-write lock up, or leaves its queue.
--
-- KEYS  as take_rw
-- ARGV  owner, kind (r or w)
-- reply 1 it was there and is no more, 0 it was not there

K.name, K.token, K.info, K.queue, K.channel = unpack(KEYS)
local me, kind = unpack(ARGV)

-- A downgrade whose answer was lost made a reader of a writer.
if rw_drop(me, kind) or (kind == 'w' and rw_drop(me, 'r')) then
    return 1
end
local found = dequeue(me)
-- Behind a writer that goes, readers may fit.
mode = redis.pcall('HGET', K.name, 'mode')
if found == 1 and mode == 'read' then
    drain(rw_fits, rw_own)
end
tidy()
return found
