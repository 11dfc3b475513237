-- slot_wants.lua (after slots.lua): for how many of those in line room must be
-- made, less what is being made already.
-- Result: {any slot, owner, of its own slots, owner, of its own slots, ...}
expire()
local room, out = used() - allowed(), {0}
local leave, total = {}, 0
redis.call('ZREMRANGEBYSCORE', leaving, '-inf', int(now))
for _, session in ipairs(redis.call('ZRANGE', leaving, 0, -1)) do
  local owner = redis.call('HGET', ownerOf, session)
  if owner then leave[owner], total = (leave[owner] or 0) + 1, total + 1 end
end
for _, owner in ipairs(redis.call('ZRANGE', turns, 0, -1)) do
  local waiting = redis.call('ZCARD', of .. owner)
  if mostOfOwner > 0 and waiting > 0 then
    local share = math.max(0, mostOfOwner - tonumber(redis.call('HGET', held, owner) or 0))
    local own = math.min(math.max(0, waiting - share), mostOfOwner)
    local under = math.min(own, leave[owner] or 0) -- way, and for this owner alone
    own, total = own - under, total - under
    if own > 0 then out[#out + 1], out[#out + 2] = owner, own end
    waiting = math.min(waiting, share)
  end
  out[1] = out[1] + waiting
end
-- What is free is granted in a moment; what runs beyond the limit must go first.
if out[1] > 0 then out[1] = math.max(0, out[1] + room - total) end
return out
