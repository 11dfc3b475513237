-- busy.lua (after lane.lua): what is registered in a session now. Entries whose
-- hold has run out are dropped.
-- Result: {jobs in the lane and with the turn, busy job, busy job, ...}
local out = {0}
local all = redis.call('HGETALL', jobs)
for i = 1, #all, 2 do
  if all[i] ~= '@' then
    local busy, hold = parse(all[i + 1])
    if hold <= now then
      redis.call('ZREM', lane, all[i])
      redis.call('HDEL', jobs, all[i])
    elseif busy > now then
      out[#out + 1] = all[i]
    end
  end
end
out[1] = redis.call('ZCARD', lane)
if turn() then out[1] = out[1] + 1 end
return out
