-- SPDX-License-Identifier: MIT
-- uses: base, latch
-- Reads the count of a latch; changes nothing.
--
-- KEYS  name, INFO
-- reply what is left, 0 if it is open

K.name, K.info = unpack(KEYS)

local left = latch_read()
if left == false then
    return mismatch('not a latch')
end
return left and math.min(left, 2 ^ 53) or 0
