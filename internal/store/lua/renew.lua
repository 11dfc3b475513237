-- renew.lua (after lane.lua): extends a job's entry; makes it again if it is
-- gone, the turn included if the job had it and nobody has it now.
-- ARGV: 1 job, 2 origin sequence, 3 exclusive (1 or 0), 4 lease ms, 5 hold ms, 6 holder, 7 running (1 or 0)
-- Result: 1, or 0 if another delivery of the job holds the entry
local job, hold = ARGV[1], now + ARGV[4] + ARGV[5]
local have = redis.call('HMGET', jobs, job, '@')
local busy, old, holder = parse(have[1])
if busy and (busy > now and foreign(holder, ARGV[6]) or old > now and outrun(holder, ARGV[6])) then return 0 end
local entry = value(now + ARGV[4], hold, ARGV[6])
if ARGV[3] == '0' or have[2] == job and old and old > now then
  redis.call('HSET', jobs, job, entry)
elseif ARGV[7] == '1' and not turn() then
  redis.call('HSET', jobs, job, entry, '@', job)
  redis.call('ZREM', lane, job)
else
  if have[2] == job then turn() end
  redis.call('HSET', jobs, job, entry)
  redis.call('ZADD', lane, 'LT', ARGV[2], job)
  keep(lane, hold)
end
keep(jobs, hold)
return 1
