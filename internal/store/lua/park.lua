-- park.lua (after lane.lua): a job that will come again keeps its place in the
-- lane, is not busy and gives the turn back.
-- ARGV: 1 job, 2 origin sequence, 3 exclusive (1 or 0), 4 hold ms, 5 holder, 6 1 if it waits in the schedules for its turn, 7 how many jobs are near
-- Result: as front in lane.lua, {'', 0} if somebody has the turn or the job itself stands first and is not to be called; false if another delivery holds the entry
local job, hold = ARGV[1], now + ARGV[4]
local have = redis.call('HMGET', jobs, job, '@')
local _, _, holder = parse(have[1])
if foreign(holder, ARGV[5]) then return false end
if have[2] == job then redis.call('HDEL', jobs, '@') end
if ARGV[3] == '1' then
  local away = ''
  if ARGV[6] == '1' then away = '@0' end
  redis.call('HSET', jobs, job, value(0, hold, away))
  redis.call('ZADD', lane, 'LT', ARGV[2], job)
  keep(jobs, hold)
  keep(lane, hold)
else
  redis.call('HDEL', jobs, job)
end
if turn() then return {'', 0} end
local first = head()
if not first or first == job and ARGV[6] == '0' then return {'', 0} end
return front(ARGV[7])
