-- busy.lua (after lane.lua): what is registered in a session now. Entries whose
-- hold has run out are dropped.
-- Result: {length of the lane, has the turn or '', busy job, busy job, ...}
local out = {0, ''}
local all = redis.call('HGETALL', jobs)
for i = 1, #all, 2 do
  if all[i] ~= '@' then
    local busy, hold = string.match(all[i + 1], '^(%d+) (%d+) ')
    if tonumber(hold) <= now then
      drop(all[i])
    elseif tonumber(busy) > now then
      out[#out + 1] = all[i]
    end
  end
end
out[2] = turn() or ''
out[1] = redis.call('ZCARD', lane)
return out
