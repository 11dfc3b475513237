-- lease_drop.lua: gives a lease back.
-- KEYS[1] lease: string "<token> <holder>"
-- ARGV: 1 holder
-- Result: 1|0
local have = redis.call('GET', KEYS[1])
if not have or string.match(have, '^%d+ (.*)$') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
