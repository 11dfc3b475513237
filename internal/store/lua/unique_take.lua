-- unique_take.lua: takes a unique key, or extends it if it is the job's own.
-- KEYS[1] unique: string "<session>/<job>"
-- ARGV: 1 "<session>/<job>", 2 ms to live
-- Result: who holds it now
local have = redis.call('GET', KEYS[1])
if have and have ~= ARGV[1] then return have end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
