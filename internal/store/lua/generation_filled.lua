-- generation_filled.lua: notes that this life of the view has been filled.
-- KEYS[1] generation: string "<id> <ms of birth>", and " filled", then " listed", once it is
-- ARGV: 1 id, 2 filled | listed
-- Result: 1, or 0 if the view has another life by now
local have = redis.call('GET', KEYS[1]) or ''
local id, born = string.match(have, '^(%S+) (%d+)')
if id ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], id .. ' ' .. born .. ' ' .. ARGV[2])
return 1
