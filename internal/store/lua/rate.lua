-- rate.lua: the generic cell rate algorithm, one unit at a time.
-- KEYS[1] rate: string, µs of the theoretical arrival time
-- ARGV: 1 µs between units, 2 burst
-- Result: 0 if a unit was taken, else µs to wait before asking again
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local step = tonumber(ARGV[1])
local at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local early = at - (tonumber(ARGV[2]) - 1) * step
if early > now then return math.ceil(early - now) end
at = at + step
redis.call('SET', KEYS[1], string.format('%.0f', at), 'PX', string.format('%.0f', math.ceil((at - now) / 1000) + 1))
return 0
