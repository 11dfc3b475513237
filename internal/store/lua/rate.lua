-- rate.lua: the generic cell rate algorithm, one unit at a time, behind a pause
-- that somebody asked for.
-- KEYS[1] rate: string, µs of the theoretical arrival time
-- KEYS[2] pause: string, how many were told to wait for its end; expires with it
-- ARGV: 1 µs between units, 0 for no rate, 2 burst, 3 µs between those who wait for the end of a pause
-- Result: 0 if a unit was taken, else µs to wait before asking again
local rest = redis.call('PTTL', KEYS[2])
if rest > 0 then
  -- One after the other, or all of them would come back in the same moment.
  return rest * 1000 + (redis.call('INCR', KEYS[2]) - 1) * ARGV[3]
end
local step = tonumber(ARGV[1])
if step == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local early = at - (tonumber(ARGV[2]) - 1) * step
if early > now then return math.ceil(early - now) end
at = at + step
redis.call('SET', KEYS[1], string.format('%.0f', at), 'PX', string.format('%.0f', math.ceil((at - now) / 1000) + 1))
return 0
