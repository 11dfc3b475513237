-- busy.lua (after lane.lua): what is registered in a session now. Entries whose
-- hold has run out are dropped. Of a long lane a part is looked at.
-- ARGV: 1 how many entries to look at, about
-- Result: {jobs in the lane and with the turn, busy job, busy job, ...}
local has, till = turn()
local out = {0}
if has and till > now then out[2] = has end
local all = redis.call('HSCAN', jobs, 0, 'COUNT', ARGV[1])[2]
for i = 1, #all, 2 do
  if all[i] ~= '@' and all[i] ~= has then
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
if has then out[1] = out[1] + 1 end
return out
