-- SPDX-License-Identifier: MIT
-- uses: base
-- Asks holders to release; Redisson's cannot be asked. A client may have handed its
-- mutex off under a later token of the same block, so the message contains the token
-- that was meant: only the caller that holds under it gets the event.
--
-- KEYS  name, INFO
-- ARGV  token (0: all of them)
-- reply how many were asked

K.name, K.info = unpack(KEYS)
local token = tonumber(ARGV[1])

-- If the lock expired, the record may still exist. For permits there is no key to
-- check.
local function holds(owner, r)
    if string.find('pe', r.kind, 1, true) then
        return true
    end
    local field = r.kind == 'w' and owner .. ':write' or owner
    return redis.pcall('HEXISTS', K.name, field) == 1
        or redis.pcall('GET', K.name) == owner
end

local asked = 0
local fields = call('HGETALL', K.info)
for i = 1, #fields, 2 do
    local owner, r = fields[i], record_read(fields[i + 1])
    local first = r and r.state == 'h' and tonumber(r.token)
    local meant = first
        and (token == 0 or token >= first and token < first + tonumber(r.span))
    if meant and holds(owner, r) then
        push(r, 'r', owner, ' ' .. ARGV[1] .. ' ' .. r.token)
        asked = asked + 1
    end
end
return asked
