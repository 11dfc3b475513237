-- generation.lua: the name of this life of the view; gives it one if it has none.
-- KEYS[1] generation: string "<id> <ms of birth>", and " filled", then " listed", once it is
-- ARGV: 1 id to give
-- Result: {id, age in ms, 1 if it was given now, 1 if the view is filled, 2 if jobs are listed too}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local have = redis.call('GET', KEYS[1])
if have then
  local id, born, filled = string.match(have, '^(%S+) (%d+) ?(%S*)')
  return {id, now - born, 0, filled == 'listed' and 2 or filled == 'filled' and 1 or 0}
end
redis.call('SET', KEYS[1], ARGV[1] .. string.format(' %.0f', now))
return {ARGV[1], 0, 1, 0}
