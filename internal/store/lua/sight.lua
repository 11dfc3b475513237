-- sight.lua: notes what is seen, how often in a row and since when. What is not
-- seen any more is forgotten.
-- KEYS[1] sightings: hash, what -> "<ms of the first> <how many>"
-- ARGV: 1 ms to live, or 0 to note and forget nothing; then what is seen
-- Result: {what, ms since the first, how many with this one, what, ...}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
local had = {}
for i = 1, #all, 2 do had[all[i]] = all[i + 1] end
local out = {}
for i = 2, #ARGV do
  local what = ARGV[i]
  local first, count = string.match(had[what] or '', '^(%d+) (%d+)$')
  had[what] = nil
  first, count = tonumber(first or now), tonumber(count or 0)
  count = count + 1
  if ARGV[1] ~= '0' then redis.call('HSET', KEYS[1], what, string.format('%.0f %.0f', first, count)) end
  out[#out + 1], out[#out + 2], out[#out + 3] = what, string.format('%.0f', now - first), string.format('%.0f', count)
end
if ARGV[1] ~= '0' then
  for what in pairs(had) do redis.call('HDEL', KEYS[1], what) end
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return out
