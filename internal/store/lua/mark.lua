-- mark.lua: notes deliveries of a durable consumer whose jobs have their places in
-- the lanes. All deliveries are marked, so that one that is missing shows.
-- KEYS[1] tide: hash, w -> consumer sequence up to which all deliveries are marked, s -> the highest stream sequence among them
-- KEYS[2] early: zset, "<consumer sequence>:<stream sequence>" -> consumer sequence: marks behind a gap
-- ARGV: consumer sequence, stream sequence, and so on, ascending; none to look only
-- Result: {s, marks behind the gap, 1 if it was this call that closed one}
local have = redis.call('HMGET', KEYS[1], 'w', 's')
local w, s = tonumber(have[1] or 0), tonumber(have[2] or 0)
local early, closed = redis.call('ZCARD', KEYS[2]), 0
local w0, s0 = w, s
local before = early
for i = 1, #ARGV, 2 do
  local d, at = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  if d <= w and at > s then
    -- The consumer was made anew and counts from 1 again.
    redis.call('DEL', KEYS[2])
    w, early, before = 0, 0, 0
  end
  if d == w + 1 then
    w, s = d, math.max(s, at)
  elseif d > w and early < 100000 then
    early = early + redis.call('ZADD', KEYS[2], d, ARGV[i] .. ':' .. ARGV[i + 1])
  end
end
while early > 0 do
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local d, at = string.match(first, '^(%d+):(%d+)$')
  d, at = tonumber(d), tonumber(at)
  if d > w + 1 then break end
  redis.call('ZREM', KEYS[2], first)
  early = early - 1
  if d == w + 1 then w, s = d, math.max(s, at) end
  if before > 0 then closed = 1 end
end
if w ~= w0 or s ~= s0 then redis.call('HSET', KEYS[1], 'w', string.format('%.0f', w), 's', string.format('%.0f', s)) end
return {string.format('%.0f', s), early, closed}
