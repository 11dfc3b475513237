-- job_put.lua: stores a job's view unless a newer one is there, and keeps the
-- list at its cap: the lowest origins go first, and what was not touched for the
-- time to live.
-- KEYS[1] view, KEYS[2] order, KEYS[3] of (this session)
-- ARGV: 1 session, 2 job, 3 sequence, 4 origin, 5 json, 6 cap, 7 ms to live, 8 prefix of the "of" keys (same tag)
-- Result: 1|0
local member = ARGV[1] .. '/' .. ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local have = redis.call('HGET', KEYS[1], member)
if have and tonumber(string.match(have, '^%d+')) > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], member, ARGV[3] .. string.format(' %.0f ', now) .. ARGV[4] .. ' ' .. ARGV[5])
if have then return 1 end
redis.call('ZADD', KEYS[2], ARGV[4], member)
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[2])
-- A new one in, at most four old ones out: the work of one call stays small.
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[6])
for i, old in ipairs(redis.call('ZRANGE', KEYS[2], 0, 3)) do
  if i > over then
    local v = redis.call('HGET', KEYS[1], old)
    if v and tonumber(string.match(v, '^%d+ (%d+)')) > now - ARGV[7] then break end
  end
  local session, job = string.match(old, '^([^/]+)/(.+)$')
  redis.call('ZREM', KEYS[2], old)
  redis.call('HDEL', KEYS[1], old)
  redis.call('ZREM', ARGV[8] .. session, job)
end
return 1
