-- slot_list.lua: the slots in use.
-- KEYS[1] slots: zset, session -> ms when its lease ends
-- Result: {session, ms left, session, ms left, ...}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf', 'WITHSCORES')
for i = 2, #all, 2 do all[i] = string.format('%.0f', all[i] - now) end
return all
