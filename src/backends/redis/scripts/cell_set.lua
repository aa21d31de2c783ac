-- SPDX-License-Identifier: MIT
-- uses: base
-- Writes a versioned cell if it still has the expected version; once per request.
--
-- KEYS  name, token, done
-- ARGV  expected version (0: no cell), request id (the done key contains it),
--       remove (0 or 1), value
-- reply {1, version} written (0: removed), {0, version} it has that version
--
-- Versions are tokens: no version is ever used twice, not even after a removal.

K.name, K.token, K.done = unpack(KEYS)
local expected, _, remove, value = unpack(ARGV)

local before = call('GET', K.done)
if before then
    return { 1, tonumber(before) }
end
local version = redis.pcall('HGET', K.name, 'holdfast_version')
if type(version) == 'table' or not version and call('EXISTS', K.name) == 1 then
    return mismatch('not a cell')
end
version = version or '0'
if version ~= expected then
    return { 0, tonumber(version) }
end
local new = '0'
if remove == '1' then
    call('DEL', K.name)
else
    new = draw_token(1)
    if not new then
        return corrupt()
    end
    call('HSET', K.name, 'holdfast_version', new, 'holdfast_value', value)
end
call('SET', K.done, new, 'PX', ANSWER_MS)
return { 1, tonumber(new) }
