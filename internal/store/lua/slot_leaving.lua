-- slot_leaving.lua: marks a session as being paused to make room.
-- KEYS[1] leaving: zset, session -> ms when that is given up
-- ARGV: 1 session, 2 ms
-- Result: 1, or 0 if it is marked already
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
return redis.call('ZADD', KEYS[1], 'NX', string.format('%.0f', now + ARGV[2]), ARGV[1])
