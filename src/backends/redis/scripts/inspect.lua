-- SPDX-License-Identifier: MIT
-- uses: base, names
-- Lists the holders and waiters of a name, Redisson's clients too, page by page.
--
-- KEYS  name, INFO, QUEUE, fair queue, zsets of permits and of expiring permits, token
-- ARGV  section and place in it where the page begins: 1 and 0 for the first one
-- reply {section, place, {row ...}}: where the next page begins; section 0: no more
--       pages. A row is
--       {role, kind, owner, token, permits, limit, place, since ms, left ms, details}
--       role: h holder, w waiter, l a counting latch (permits: what is left), c a cell
--       (token: its version), s a counter that holdfast did not make, a semaphore's or
--       a latch's (permits: its value). kind as in records.
--       since -1: not known (a Redisson client; its details are its owner). left -1:
--       no lease
--
-- A key may belong to an application: for what is no lock of holdfast or Redisson there
-- are no rows, and no more than a page of it is read, however large it is.

-- Rows in a page, and bytes of a text in a row.
local PAGE, TEXT_MAX = 128, 1024

K.name, K.info, K.queue, K.fair, K.permits, K.timeout, K.token = unpack(KEYS)
clock()

local rows = {}

local function is(key, kind)
    return call('TYPE', key).ok == kind
end

local noted = is(K.info, 'hash')
local limit = noted and tonumber(call('HGET', K.info, '#limit') or 0) or 0

local function row(role, kind, owner, permits, place, left, token)
    local r = noted and owner ~= '' and record_read(call('HGET', K.info, owner)) or nil
    if r and r.state ~= role then
        r = nil
    end
    local since = r and now - tonumber(r.since) or -1
    token = r and tonumber(r.token) or token or 0
    table.insert(rows, { role, r and r.kind or kind, string.sub(owner, 1, TEXT_MAX),
        token, r and tonumber(r.permits) or permits, limit, place, since, left,
        string.sub(r and r.details or owner, 1, TEXT_MAX) })
end

-- A UUID and a thread; the value is the hold count.
local OWNER = '^%x+%-%x+%-%x+%-%x+%-%x+:%d+'

local function count_of(field, value)
    local owner, writes = string.gsub(field, ':write$', '')
    if #owner > 64 or not string.find(owner, OWNER .. '$') or #value > 9 or
        not string.find(value, '^%d+$') then
        return nil
    end
    return tonumber(value), owner, writes == 1
end

-- A mutex has exactly one field.
local function mutex_row()
    local found = call('HGETALL', K.name)
    local count, owner, writes = count_of(found[1], found[2])
    if count and not writes then
        local token = redis.pcall('GET', K.token)
        row('h', 'm', owner, count, 0, call('PTTL', K.name),
            type(token) == 'string' and tonumber(token) or 0)
    end
end

-- A read-write lock has `mode` and a field per holder. A small hash is scanned in one
-- step: the place is the cursor, and how many of its fields were on an earlier page.
local function rw_rows(place)
    local left = call('PTTL', K.name)
    local cursor, skip = string.match(place, '^(%d+) (%d+)$')
    cursor, skip = cursor or '0', tonumber(skip or 0)
    repeat
        local step = call('HSCAN', K.name, cursor, 'COUNT', PAGE)
        for i = 2 * skip + 1, #step[2], 2 do
            local field = step[2][i]
            local count, owner, writes = count_of(field, step[2][i + 1])
            if #rows == PAGE then
                return cursor .. ' ' .. text((i - 1) / 2)
            elseif count and writes then
                row('h', 'w', owner, count, 0, left)
            elseif count then
                row('h', 'r', owner, count, 0, call('PTTL', reader_key(owner)))
            elseif field ~= 'mode' then
                return nil
            end
        end
        cursor, skip = step[1], 0
    until cursor == '0'
end

local function string_row()
    if call('STRLEN', K.name) > TEXT_MAX then
        return
    end
    local value = call('GET', K.name)
    local kind = noted and call('HGET', K.info, '#kind')
    if not string.find(value, '^-?%d+$') or #value > 15 then
        row('h', 'm', value, 1, 0, call('PTTL', K.name))
    elseif kind == 'l' then
        row('l', 'l', '', tonumber(value), 0, -1)
    elseif not kind then
        local guess = is(K.timeout, 'zset') and 'e' or 'p'
        row('s', guess, '', tonumber(value), 0, -1)
    end
end

local function name_rows(place)
    if is(K.name, 'string') then
        return string_row()
    elseif not is(K.name, 'hash') then
        return nil
    end
    local found = call('HMGET', K.name, 'holdfast_version', 'mode')
    if found[1] then
        row('c', 'c', '', 0, 0, call('PTTL', K.name), tonumber(found[1]) or 0)
    elseif found[2] == 'read' or found[2] == 'write' then
        return rw_rows(place)
    elseif call('HLEN', K.name) == 1 then
        return mutex_row()
    end
end

local function zset_rows(place, key, kind)
    if not is(key, 'zset') then
        return nil
    end
    local last = place + PAGE - #rows - 1
    local found = call('ZRANGE', key, place, text(last), 'WITHSCORES')
    for i = 1, #found, 2 do
        local member = found[i]
        local left = math.min(2 ^ 52, tonumber(found[i + 1]) - now)
        -- A permit past its lease has no holder; the next client to ask gives it back.
        if left > 0 and kind == 'p' then
            row('h', kind, member, 1, 0, left)
        elseif left > 0 and #member == 16 then
            row('h', kind, permit_owner(member), 1, 0, left)
        end
    end
    return #found > 2 * (last - place) and text(last + 1) or nil
end

local function list_rows(place, key, before)
    if not is(key, 'list') then
        return nil
    end
    local last = place + PAGE - #rows - 1
    for i, owner in ipairs(call('LRANGE', key, place, text(last))) do
        row('w', 'f', owner, 1, before + place + i - 1, -1)
    end
    return #rows == PAGE and text(last + 1) or nil
end

local sections = {
    name_rows,
    function(place) return zset_rows(place, K.permits, 'p') end,
    function(place) return zset_rows(place, K.timeout, 'e') end,
    function(place) return list_rows(place, K.queue, 0) end,
    function(place)
        local before = is(K.queue, 'list') and call('LLEN', K.queue) or 0
        return list_rows(place, K.fair, before)
    end,
}

local section, place = tonumber(ARGV[1]), ARGV[2]
while section <= #sections do
    if #rows == PAGE then
        return { section, place, rows }
    end
    local more = sections[section](place)
    if more then
        return { section, more, rows }
    end
    section, place = section + 1, '0'
end
return { 0, '0', rows }
