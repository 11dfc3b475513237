-- slot_list.lua (after slots.lua): the slots in use, the line and the limit.
-- Result: {slots allowed (-1 = no limit), sessions in line, granted, {session, ms left, owner, ...}}
local full, waiting = allowed(), 0
if full == math.huge then full = -1 end
for _, owner in ipairs(redis.call('ZRANGE', turns, 0, -1)) do waiting = waiting + redis.call('ZCARD', of .. owner) end
local out = {}
local all = redis.call('ZRANGEBYSCORE', slots, '(' .. int(now), '+inf', 'WITHSCORES')
for i = 1, #all, 2 do
  out[#out + 1], out[#out + 2], out[#out + 3] = all[i], int(all[i + 1] - now), redis.call('HGET', ownerOf, all[i]) or '@'
end
return {full, waiting, redis.call('ZCARD', granted), out}
