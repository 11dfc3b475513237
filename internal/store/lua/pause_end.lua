-- pause_end.lua: takes the pausing mark away if it is the job's own.
-- KEYS[1] pause mark
-- ARGV: 1 job that pauses
-- Result: 1|0
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
