-- due_claim.lua: takes what is due and scores it anew, so that nobody else
-- takes it before the lease ends, and somebody does if nobody finishes it.
-- KEYS[1] due: zset, session -> ms when it is due
-- ARGV: 1 how many at most, 2 lease ms
-- Result: {score now given, session, was due at ms, session, was due at ms, ...}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local again = string.format('%.0f', now + ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local out = {again}
for i = 1, #due, 2 do
  redis.call('ZADD', KEYS[1], again, due[i])
  out[#out + 1], out[#out + 2] = due[i], due[i + 1]
end
return out
