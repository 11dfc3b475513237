-- slot_refuse.lua (after slots.lua): E2B allows no more than run without this
-- one. The session gives its slot back and goes to its place in line.
-- ARGV: 6 session, 7 owner, 8 job, 9 ms that the place in line is kept, 10 origin sequence of the job
-- Result: {calls}
expire()
drop(ARGV[6])
redis.call('SET', learned, int(redis.call('ZCARD', slots)) .. ' ' .. int(now), 'PX', int(20 * probeAfter))
join(ARGV[6], ARGV[7], ARGV[8], now + ARGV[9], ARGV[10])
grant()
return called()
