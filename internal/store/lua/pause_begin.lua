-- pause_begin.lua (after lane.lua): marks the session as pausing unless a job
-- other than the one that pauses it is registered: busy, in the lane, or of a
-- worker that died and will be followed by another. Whoever has the turn need not
-- mind those that wait behind it: they wait for its end.
-- KEYS[3] pause mark
-- ARGV: 1 job that pauses, 2 ms the mark lives, 3 whether those behind it count (1 or 0)
-- Result: 1|0
local mark = redis.call('GET', KEYS[3])
if mark and mark ~= ARGV[1] then return 0 end
local has, first = turn(), head()
-- Asked again, by a worker that took the job over: who came since sees the mark.
if mark then
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
  return 1
end
local ahead = ARGV[3] == '0' and has == ARGV[1]
-- A long lane is not read through.
if has and has ~= ARGV[1] or first and first ~= ARGV[1] and not ahead then return 0 end
local all = redis.call('HGETALL', jobs)
for i = 1, #all, 2 do
  if all[i] ~= '@' and all[i] ~= ARGV[1] then
    local _, hold = parse(all[i + 1])
    local behind = ahead and redis.call('ZSCORE', lane, all[i])
    if hold > now and not behind then return 0 end
  end
end
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return 1
