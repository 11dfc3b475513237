-- session_put.lua: stores a record unless one as new is there.
-- KEYS[1] record
-- ARGV: 1 sequence, 2 record, 3 ms to live (0 = for ever)
-- Result: 1 if the record of that sequence stands now, 0 if a newer one does
local have = tonumber(string.match(redis.call('GETRANGE', KEYS[1], 0, 20), '^%d+') or '')
if have and have > tonumber(ARGV[1]) then return 0 end
if have == tonumber(ARGV[1]) then return 1 end
local value = ARGV[1] .. ' ' .. ARGV[2]
if ARGV[3] == '0' then redis.call('SET', KEYS[1], value) else redis.call('SET', KEYS[1], value, 'PX', ARGV[3]) end
return 1
