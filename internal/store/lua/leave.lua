-- leave.lua (after lane.lua): takes a job's entry away.
-- KEYS[3] idle (for people)
-- ARGV: 1 job, 2 holder ('' = whoever), 3 idle ms (0 = none)
-- Result: the job whose turn may come now, or ''; false if another delivery holds the entry
local job = ARGV[1]
local busy, _, holder = entry(job)
if busy and holder ~= ARGV[2] and ARGV[2] ~= '' and holder ~= '' then return false end
drop(job)
if redis.call('HGET', jobs, '@') == job then redis.call('HDEL', jobs, '@') end
if ARGV[3] ~= '0' and redis.call('HLEN', jobs) == 0 then redis.call('SET', KEYS[3], 'idle', 'PX', ARGV[3]) end
if turn() then return '' end
return head() or ''
