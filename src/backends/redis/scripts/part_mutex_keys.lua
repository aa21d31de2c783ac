-- SPDX-License-Identifier: MIT
-- uses: values
-- The keys of take_mutex and withdraw_mutex, in the order in which the client sends
-- them.

local keys = KEYS
K = { name = keys[1], token = keys[2], info = keys[3], queue = keys[4], fair = keys[5],
    patience = keys[6], channel = keys[7] }
