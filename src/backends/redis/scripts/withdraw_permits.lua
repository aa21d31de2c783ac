-- SPDX-License-Identifier: MIT
-- uses: base, names, queue, drain, count
-- Gives permits back, or leaves the queue for them.
--
-- KEYS  as take_permits
-- ARGV  owner, kind (p or e)
-- reply 1 withdrawn, 0 neither held nor queued

K.name, K.token, K.info, K.queue, K.channel, K.zset = unpack(KEYS)
local me = ARGV[1]
kind = ARGV[2]

if count_drop(me) then
    count_release()
    return 1
end
local found = dequeue(me)
free = count_read()
if free and found == 1 then
    count_release()
else
    tidy()
end
return found
