-- SPDX-License-Identifier: MIT
-- Names that Redisson derives from an owner.

-- The key that lives as long as the lease of a reader's i-th hold.
local function reader_key(owner, i)
    local tagged = string.find(K.name, '{', 1, true) and K.name or '{' .. K.name .. '}'
    return tagged .. ':' .. owner .. ':rwlock_timeout:' .. (i or 1)
end

-- The id of an expiring permit: the 16 bytes that the owner's UUID writes in hex.
local function permit_id(owner)
    local hex = string.gsub(string.sub(owner, 1, 36), '-', '')
    return (string.gsub(hex, '%x%x', function(byte)
        return string.char(tonumber(byte, 16))
    end))
end

-- The owner of an expiring permit's id.
local function permit_owner(id)
    local hex = string.gsub(id, '.', function(byte)
        return string.format('%02x', string.byte(byte))
    end)
    return string.gsub(hex, '^(........)(....)(....)(....)', '%1-%2-%3-%4-') .. ':1'
end
