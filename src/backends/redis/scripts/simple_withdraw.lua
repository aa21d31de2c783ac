-- SPDX-License-Identifier: MIT
-- uses: base, queue, drain, simple
-- Releases a lock of the simple layout, or leaves its queue.
--
-- KEYS  as simple_take
-- ARGV  id, kind, foreign clients (0: there are none)
-- reply 1 withdrawn, 0 neither held nor queued

K.name, K.token, K.info, K.queue = unpack(KEYS)
K.token_ms = TOKEN_MS

if simple_drop(ARGV[1], nil, ARGV[3] ~= '0') then
    return 1
end
local found = dequeue(ARGV[1])
tidy()
return found
