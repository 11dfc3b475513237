-- enter.lua (after lane.lua): registers a job and says whether it may run.
-- KEYS[3] record, KEYS[4] pause mark, KEYS[5] idle (for people)
-- ARGV: 1 job, 2 origin sequence, 3 exclusive (1 or 0), 4 lease ms, 5 hold ms, 6 holder
-- Result: {turn 1|0, jobs ahead, who blocks or '', 1 if that one is busy, who pauses or '', record or ''}
local job, exclusive, hold = ARGV[1], ARGV[3] == '1', now + ARGV[4] + ARGV[5]
local has, until_ = false, 0
if exclusive then has, until_ = turn() end
put(job, now + ARGV[4], hold, ARGV[6])
keep(jobs, hold)
redis.call('DEL', KEYS[5])
local may, ahead, blocker, busy = 1, 0, '', 0
if exclusive then
  redis.call('ZADD', lane, 'LT', ARGV[2], job)
  keep(lane, hold)
  local first, firstUntil = head()
  if not has and first == job then
    redis.call('HSET', jobs, '@', job)
  elseif has ~= job then
    may, ahead = 0, math.max(redis.call('ZRANK', lane, job), 1)
    blocker = has or first
    if (has and until_ or firstUntil) > now then busy = 1 end
  end
end
local pausing = redis.call('GET', KEYS[4])
if not pausing or pausing == job then pausing = '' end
return {may, ahead, blocker, busy, pausing, redis.call('GET', KEYS[3]) or ''}
