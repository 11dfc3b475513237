-- renew.lua (after lane.lua): extends a job's entry; makes it again if it is
-- gone, the turn included if the job had it and nobody has it now.
-- ARGV: 1 job, 2 origin sequence, 3 exclusive (1 or 0), 4 lease ms, 5 hold ms, 6 holder, 7 running (1 or 0)
-- Result: 1, or 0 if another delivery of the job holds the entry
local job, hold = ARGV[1], now + ARGV[4] + ARGV[5]
local busy, _, holder = entry(job)
if busy and busy > now and holder ~= ARGV[6] and ARGV[6] ~= '' and holder ~= '' then return 0 end
local vacant = ARGV[3] == '1' and ARGV[7] == '1' and not turn()
put(job, now + ARGV[4], hold, ARGV[6])
keep(jobs, hold)
if ARGV[3] == '1' then
  redis.call('ZADD', lane, 'LT', ARGV[2], job)
  keep(lane, hold)
  if vacant then redis.call('HSET', jobs, '@', job) end
end
return 1
