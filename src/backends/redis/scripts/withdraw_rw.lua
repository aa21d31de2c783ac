-- SPDX-License-Identifier: MIT
-- uses: base, names, queue, drain, rw
-- Releases a read-write lock, or leaves its queue.
--
-- KEYS  as take_rw
-- ARGV  owner, kind (r or w)
-- reply 1 withdrawn, 0 neither held nor queued

K.name, K.token, K.info, K.queue, K.channel = unpack(KEYS)
local me, kind = unpack(ARGV)

-- A downgrade whose answer was lost has turned the writer into a reader.
if rw_drop(me, kind) or (kind == 'w' and rw_drop(me, 'r')) then
    return 1
end
local found = dequeue(me)
-- Readers behind the writer that left the queue may be granted now.
mode = redis.pcall('HGET', K.name, 'mode')
if found == 1 and mode == 'read' then
    drain(rw_fits, rw_own)
end
tidy()
return found
