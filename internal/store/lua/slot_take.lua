-- slot_take.lua: takes one of the running slots, or keeps the one it has.
-- KEYS[1] slots: zset, session -> ms when its lease ends
-- ARGV: 1 session, 2 limit, 3 lease ms
-- Result: {1|0, slots in use}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local used = redis.call('ZCARD', KEYS[1])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if used >= tonumber(ARGV[2]) then return {0, used} end
  used = used + 1
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
return {1, used}
