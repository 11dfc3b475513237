-- enter.lua (after lane.lua): registers a job and says whether it may run.
-- KEYS[3] record, KEYS[4] pause mark, KEYS[5] idle (for people)
-- ARGV: 1 job, 2 origin sequence, 3 exclusive (1 or 0), 4 lease ms, 5 hold ms, 6 holder
-- Result: {turn 1|0, jobs ahead, who blocks or '', 1 if that one is busy, who pauses or '', record or ''}
local job, exclusive, hold = ARGV[1], ARGV[3] == '1', now + ARGV[4] + ARGV[5]
local entry = value(now + ARGV[4], hold, ARGV[6])
local may, ahead, blocker, busy = 1, 0, '', 0
if redis.call('HLEN', jobs) == 0 then
  -- Nobody is here, as most of the time.
  if exclusive then redis.call('HSET', jobs, job, entry, '@', job) else redis.call('HSET', jobs, job, entry) end
  redis.call('PEXPIRE', jobs, string.format('%.0f', 2 * (hold - now)))
else
  local has, till = false, 0
  if exclusive then has, till = turn() end
  redis.call('HSET', jobs, job, entry)
  keep(jobs, hold)
  if exclusive and has ~= job then
    redis.call('ZADD', lane, 'LT', ARGV[2], job)
    keep(lane, hold)
    blocker = has
    if not has then blocker, till = head() end
    if not blocker or blocker == job then -- none: the own entry ran out meanwhile, as it may in miniredis
      redis.call('HSET', jobs, '@', job)
      redis.call('ZREM', lane, job)
      blocker = ''
    else
      may, ahead = 0, redis.call('ZRANK', lane, job)
      if has then ahead = ahead + 1 end
      if till > now then busy = 1 end
    end
  end
end
local about = redis.call('MGET', KEYS[3], KEYS[4], KEYS[5])
if about[3] then redis.call('DEL', KEYS[5]) end
local pausing = about[2]
if not pausing or pausing == job then pausing = '' end
return {may, ahead, blocker, busy, pausing, about[1] or ''}
