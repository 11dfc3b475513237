-- unique_drop.lua: gives a unique key back.
-- KEYS[1] unique: string "<session>/<job>"
-- ARGV: 1 "<session>/<job>"
-- Result: 1|0
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
