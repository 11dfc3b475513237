-- leave.lua (after lane.lua): takes a job's entry away.
-- KEYS[3] idle (for people)
-- ARGV: 1 job, 2 holder ('' = whoever), 3 idle ms (0 = none)
-- Result: the job whose turn may come now, or ''; false if another delivery holds the entry
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
  return ''
end
if mine then redis.call('HDEL', jobs, job, '@') else redis.call('HDEL', jobs, job) end
if turn() then return '' end
return head() or ''
