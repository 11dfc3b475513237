-- due_set.lua: sets a deadline.
-- KEYS[1] due: zset, session -> ms when it is due
-- ARGV: 1 ms from now, 2 'GT' to move it later only, or '', 3.. sessions
-- Result: 1
local time = redis.call('TIME')
local at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
for i = 3, #ARGV do
  if ARGV[2] == 'GT' then redis.call('ZADD', KEYS[1], 'GT', at, ARGV[i]) else redis.call('ZADD', KEYS[1], at, ARGV[i]) end
end
return 1
