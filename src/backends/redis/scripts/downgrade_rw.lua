-- SPDX-License-Identifier: MIT
-- uses: base, names, queue, drain, rw
-- Turns a write hold into a read hold; no other writer gets in between. Waiting readers
-- are granted the lock.
--
-- KEYS  as take_rw
-- ARGV  owner, ttl ms (more is ignored)
-- reply 1 a read hold now, or before already; 0 not held

K.name, K.token, K.info, K.queue, K.channel = unpack(KEYS)
local me, ttl = unpack(ARGV)

if redis.pcall('HEXISTS', K.name, me .. ':write') ~= 1 then
    return redis.pcall('HEXISTS', K.name, me) == 1 and 1 or 0
end
clock()
local r = record_read(call('HGET', K.info, me))
-- The lease is written first, and the mode last of all that an ACL may refuse: until
-- then the writer stays a writer. After the mode the reply is 1, whatever else is
-- refused.
call('SET', reader_key(me), 1, 'PX', ttl)
raise_ttl(K.name, ttl)
call('HSET', K.name, me, 1)
call('HDEL', K.name, me .. ':write')
call('HSET', K.name, 'mode', 'read')
if r then
    r.kind, r.ttl = 'r', ttl
    call('HSET', K.info, me, record_write(r))
end
mode = 'read'
pcall(drain, rw_fits, rw_own)
redis.pcall('PUBLISH', K.channel, '1')
return 1
