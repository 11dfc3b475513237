-- rate_pause.lua: nobody takes a unit for a while. A pause only gets longer.
-- KEYS[1] pause: string, how many were told to wait for its end; expires with it
-- ARGV: 1 ms
-- Result: 1|0
if redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], '0', 'PX', ARGV[1])
return 1
