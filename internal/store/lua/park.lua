-- park.lua (after lane.lua): a job that will come again keeps its place in the
-- lane, is not busy and gives the turn back.
-- ARGV: 1 job, 2 origin sequence, 3 exclusive (1 or 0), 4 hold ms, 5 holder
-- Result: the job whose turn may come now, or ''; false if another delivery holds the entry
local job, hold = ARGV[1], now + ARGV[4]
local have = redis.call('HMGET', jobs, job, '@')
local _, _, holder = parse(have[1])
if foreign(holder, ARGV[5]) then return false end
if have[2] == job then redis.call('HDEL', jobs, '@') end
if ARGV[3] == '1' then
  redis.call('HSET', jobs, job, value(0, hold, ''))
  redis.call('ZADD', lane, 'LT', ARGV[2], job)
  keep(jobs, hold)
  keep(lane, hold)
else
  redis.call('HDEL', jobs, job)
end
if turn() then return '' end
local first = head()
if not first or first == job then return '' end
return first
