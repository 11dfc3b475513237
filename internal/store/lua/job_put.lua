-- job_put.lua: stores a job's view unless a newer one is there. A call with a
-- cap keeps the list there as well: the lowest origins go first, and what was
-- put longest ago, at most 64 a call.
-- KEYS[1] view, KEYS[2] order, KEYS[3] of (this session)
-- ARGV: 1 session, 2 job, 3 sequence, 4 ms of put, 5 origin, 6 json, 7 cap or '', 8 ms before which what was put is old, 9 prefix of the "of" keys (same tag)
-- Result: 1|0
local member = ARGV[1] .. '/' .. ARGV[2]
local have = redis.call('HGET', KEYS[1], member)
if have and tonumber(string.match(have, '^%d+')) > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], member, ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. ARGV[6])
if not have then
  redis.call('ZADD', KEYS[2], ARGV[5], member)
  redis.call('ZADD', KEYS[3], ARGV[5], ARGV[2])
end
if ARGV[7] == '' then return 1 end
local over = redis.call('ZCARD', KEYS[2]) - ARGV[7]
for i, old in ipairs(redis.call('ZRANGE', KEYS[2], 0, 63)) do
  if i > over then
    local v = redis.call('HGET', KEYS[1], old)
    if v and tonumber(string.match(v, '^%d+ (%d+)')) > tonumber(ARGV[8]) then break end
  end
  local session, job = string.match(old, '^([^/]+)/(.+)$')
  redis.call('ZREM', KEYS[2], old)
  redis.call('HDEL', KEYS[1], old)
  redis.call('ZREM', ARGV[9] .. session, job)
end
return 1
