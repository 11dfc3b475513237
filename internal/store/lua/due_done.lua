-- due_done.lua: takes a claimed deadline away unless it was set anew since.
-- KEYS[1] due: zset, session -> ms when it is due
-- ARGV: 1 session, 2 score that the claim gave it
-- Result: 1|0
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
