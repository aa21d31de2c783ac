-- SPDX-License-Identifier: MIT
-- uses: base, names
-- Says who holds a name and who waits for it, Redisson's clients too.
--
-- KEYS  name, INFO, QUEUE, fair queue, zsets of permits and of expiring permits, token
-- reply rows {role, kind, owner, token, permits, limit, place, since ms, left ms,
--       details}
--       role: h holder, w waiter, l a latch that counts (permits: what is
--       left), c a cell (token: its version), s a counter nobody of ours has made, a
--       semaphore's or a latch's (permits: its value). kind as in records.
--       since -1: not known (one of Redisson's; its details are its owner). left -1:
--       none

K.name, K.info, K.queue, K.fair, K.permits, K.timeout, K.token = unpack(KEYS)
clock()

local rows = {}
local limit = tonumber(call('HGET', K.info, '#limit') or 0)

local function row(role, kind, owner, permits, place, left, token)
    local r = record_read(owner ~= '' and call('HGET', K.info, owner))
    if r and r.state ~= role then
        r = nil
    end
    local since = r and now - tonumber(r.since) or -1
    token = r and tonumber(r.token) or token or 0
    table.insert(rows, { role, r and r.kind or kind, owner, token,
        r and tonumber(r.permits) or permits, limit, place, since, left,
        r and r.details or owner })
end

local function hash_rows()
    local fields, all = call('HGETALL', K.name), {}
    for i = 1, #fields, 2 do
        all[fields[i]] = fields[i + 1]
    end
    local left = call('PTTL', K.name)
    if all.holdfast_version then
        row('c', 'c', '', 0, 0, left, tonumber(all.holdfast_version))
        return
    end
    local mode = all.mode
    all.mode = nil
    for field, count in pairs(all) do
        local owner, writes = string.gsub(field, ':write$', '')
        if not mode then
            row('h', 'm', owner, tonumber(count), 0, left,
                tonumber(call('GET', K.token) or 0))
        elseif writes == 1 then
            row('h', 'w', owner, tonumber(count), 0, left)
        else
            row('h', 'r', owner, tonumber(count), 0, call('PTTL', reader_key(owner)))
        end
    end
end

local function zset_rows(key, kind)
    local found = call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #found, 2 do
        local owner = kind == 'e' and permit_owner(found[i]) or found[i]
        row('h', kind, owner, 1, 0, tonumber(found[i + 1]) - now)
    end
end

local function string_rows()
    local value = call('GET', K.name)
    local kind = call('HGET', K.info, '#kind')
    if not string.find(value, '^-?%d+$') or #value == 32 then
        row('h', 'm', value, 1, 0, call('PTTL', K.name))
    elseif kind == 'l' then
        row('l', 'l', '', tonumber(value), 0, -1)
    elseif not kind then
        local guess = call('EXISTS', K.timeout) == 1 and 'e' or 'p'
        row('s', guess, '', tonumber(value), 0, -1)
    end
end

local kind = call('TYPE', K.name).ok
if kind == 'hash' then
    hash_rows()
elseif kind == 'string' then
    string_rows()
end
zset_rows(K.permits, 'p')
zset_rows(K.timeout, 'e')

local place = 0
for _, queue in ipairs({ K.queue, K.fair }) do
    for _, owner in ipairs(call('LRANGE', queue, 0, -1)) do
        row('w', 'f', owner, 1, place, -1)
        place = place + 1
    end
end
return rows
