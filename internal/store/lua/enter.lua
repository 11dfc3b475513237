-- enter.lua (after lane.lua): registers a job and says whether it may run.
-- KEYS[3] record, KEYS[4] pause mark, KEYS[5] idle (for people)
-- ARGV: 1 job, 2 origin sequence, 3 exclusive (1 or 0), 4 lease ms, 5 hold ms, 6 holder, 7 owner that the job's subject names or ''
-- Result: {turn 1|0, or -1 if a later claim of the job holds the entry, or -2 if the session's proven owner is another; jobs ahead, who blocks or '', its state as in lane.lua, who pauses or '', record or ''}
local about = redis.call('MGET', KEYS[3], KEYS[4], KEYS[5])
local proven = about[1] and string.match(about[1], '^%d+ {"p":"([^"]*)"')
if proven and proven ~= ARGV[7] then return {-2} end
local job, exclusive, hold = ARGV[1], ARGV[3] == '1', now + ARGV[4] + ARGV[5]
local entry = value(now + ARGV[4], hold, ARGV[6])
local may, ahead, blocker, where = 1, 0, '', 0
local here, have = redis.call('HLEN', jobs), false
if here > 0 then have = redis.call('HGET', jobs, job) end
local _, till, holder = parse(have)
if till and till > now and outrun(holder, ARGV[6]) then return {-1} end
if exclusive and here == 1 and have then
  -- Its own place is all there is, as most of the time.
  redis.call('HSET', jobs, job, entry, '@', job)
  redis.call('ZREM', lane, job)
  keep(jobs, hold)
elseif here == 0 then
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
    local holder = ''
    if not has then blocker, till, holder = head() end
    if not blocker or blocker == job then -- none: the own entry ran out meanwhile, as it may in miniredis
      redis.call('HSET', jobs, '@', job)
      redis.call('ZREM', lane, job)
      blocker = ''
    else
      may, ahead, where = 0, redis.call('ZRANK', lane, job), state(till, holder)
      if has then ahead = ahead + 1 end
    end
  end
end
if about[3] then redis.call('DEL', KEYS[5]) end
local pausing = about[2]
if not pausing or pausing == job then pausing = '' end
return {may, ahead, blocker, where, pausing, about[1] or ''}
