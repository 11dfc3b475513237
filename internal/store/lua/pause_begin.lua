-- pause_begin.lua (after lane.lua): marks the session as pausing unless a job
-- other than the one that pauses it is registered: busy, in the lane, or of a
-- worker that died and will be followed by another.
-- KEYS[3] pause mark
-- ARGV: 1 job that pauses, 2 ms the mark lives
-- Result: 1|0
local mark = redis.call('GET', KEYS[3])
if mark and mark ~= ARGV[1] then return 0 end
-- A long lane is not read through.
local has, first = turn(), head()
if has and has ~= ARGV[1] or first and first ~= ARGV[1] then return 0 end
local all = redis.call('HGETALL', jobs)
for i = 1, #all, 2 do
  if all[i] ~= '@' and all[i] ~= ARGV[1] then
    local _, hold = parse(all[i + 1])
    if hold > now then return 0 end
  end
end
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return 1
