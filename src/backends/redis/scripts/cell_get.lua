-- SPDX-License-Identifier: MIT
-- uses: base
-- Reads a versioned cell.
--
-- KEYS  name
-- reply {version, value}, or nil if there is none

local found = redis.pcall('HMGET', KEYS[1], 'holdfast_version', 'holdfast_value')
if found.err or not found[1] and call('EXISTS', KEYS[1]) == 1 then
    return mismatch('not a cell')
end
return found[1] and { tonumber(found[1]), found[2] } or false
