-- lanes_known.lua: every job that waits has its place in its lane, as the holder of
-- the lease found out since it has taken it.
-- KEYS[1] lanes: string, KEYS[2] lease: string "<token> <holder>"
-- ARGV: 1 "<token> <holder>"
-- Result: 1, or 0 if the lease is gone: Redis may have been wiped meanwhile
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
