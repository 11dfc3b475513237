-- slot_sweep.lua (after slots.lua): grants what has become free by itself, calls
-- those who have not come, and hands out slots whose sessions somebody should
-- look at: they keep their slots for a whole lease from now.
-- ARGV: 6 lease ms, 7 ms since the lease was extended, 8 how many sessions at most
-- Result: {{calls}, {session, ...}}
expire()
grant()
local look = redis.call('ZRANGEBYSCORE', slots, '-inf', int(now + ARGV[6] - ARGV[7]), 'LIMIT', 0, ARGV[8])
for _, session in ipairs(look) do redis.call('ZADD', slots, int(now + ARGV[6]), session) end
return {called(), look}
