-- due_done.lua: takes a claimed deadline away, or moves it, unless it was set anew
-- since. Both at once: who dies between the two would leave none.
-- KEYS[1] due: zset, session -> ms when it is due
-- ARGV: 1 session, 2 score that the claim gave it, 3 ms from now, or '' for none
-- Result: 1|0
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]), ARGV[1])
return 1
