-- lease_take.lua: takes or extends a lease. The token only ever goes up, also
-- after Redis was wiped: it is the time in µs at which the holder came.
-- KEYS[1] lease: string "<token> <holder>"
-- ARGV: 1 holder, 2 ms to live
-- Result: {1|0, token as a string, holder}
local have = redis.call('GET', KEYS[1])
if have then
  local token, holder = string.match(have, '^(%d+) (.*)$')
  if holder ~= ARGV[1] then return {0, token, holder} end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, token, holder}
end
local time = redis.call('TIME')
local token = string.format('%.0f', time[1] * 1000000 + time[2])
redis.call('SET', KEYS[1], token .. ' ' .. ARGV[1], 'PX', ARGV[2])
return {1, token, ARGV[1]}
