-- due_set.lua: sets deadlines.
-- KEYS[1] due: zset, session -> ms when it is due
-- ARGV: 1 'GT' to move them later only, or 'CH' to set them; then pairs: ms from now, session
-- Result: 1
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for from = 2, #ARGV, 1000 do
  local pairs = {}
  for i = from, math.min(from + 999, #ARGV), 2 do
    pairs[#pairs + 1], pairs[#pairs + 2] = string.format('%.0f', now + ARGV[i]), ARGV[i + 1]
  end
  redis.call('ZADD', KEYS[1], ARGV[1], unpack(pairs))
end
return 1
