-- mark_upto.lua: every job up to a delivery has its place, as somebody who has read
-- the stream found out. What was marked behind it is kept; marks of a consumer that
-- counts anew are not.
-- KEYS[1] tide, KEYS[2] early: as in mark.lua
-- ARGV: 1 consumer sequence, 2 stream sequence
-- Result: 1|0
local have = redis.call('HMGET', KEYS[1], 'w', 's')
local w, s = tonumber(have[1] or 0), tonumber(have[2] or 0)
local d, at = tonumber(ARGV[1]), tonumber(ARGV[2])
if at < s or at == s and d <= w then return 0 end
if d < w then redis.call('DEL', KEYS[2]) end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
redis.call('HSET', KEYS[1], 'w', ARGV[1], 's', ARGV[2])
return 1
