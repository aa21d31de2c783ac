-- SPDX-License-Identifier: MIT
-- uses: base, queue, drain, simple
-- Gives a lock of the simple layout up, or leaves its queue.
--
-- KEYS  as simple_take
-- ARGV  id, kind, strangers (0: there are none)
-- reply 1 it was there and is no more, 0 it was not there

K.name, K.token, K.info, K.queue = unpack(KEYS)
K.token_ms = TOKEN_MS

if simple_drop(ARGV[1], nil, ARGV[3] ~= '0') then
    return 1
end
local found = dequeue(ARGV[1])
tidy()
return found
