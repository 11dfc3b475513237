-- leave.lua (after lane.lua): takes a job's entry away.
-- KEYS[3] idle (for people)
-- ARGV: 1 job, 2 holder ('' = whoever), 3 idle ms (0 = none), 4 how many jobs are near
-- Result: as front in lane.lua, {'', 0} if somebody has the turn; false if another delivery holds the entry
local job = ARGV[1]
local have = redis.call('HMGET', jobs, job, '@')
local _, _, holder = parse(have[1])
if foreign(holder, ARGV[2]) then return false end
local mine = have[2] == job
local left = redis.call('HLEN', jobs)
if have[1] then left = left - 1 end
if mine then left = left - 1 else redis.call('ZREM', lane, job) end
if left == 0 then
  -- Nobody stays, as most of the time.
  redis.call('DEL', jobs)
  if ARGV[3] ~= '0' then redis.call('SET', KEYS[3], 'idle', 'PX', ARGV[3]) end
  return {'', 0}
end
if mine then redis.call('HDEL', jobs, job, '@') else redis.call('HDEL', jobs, job) end
if turn() then return {'', 0} end
return front(ARGV[4])
