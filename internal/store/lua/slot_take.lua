-- slot_take.lua (after slots.lua): takes one of the running slots, keeps the one
-- the session has, or puts the job into the line.
-- ARGV: 6 session, 7 owner, 8 job, 9 lease ms, 10 ms that the place in line is kept, 11 origin sequence of the job
-- Result: {1|0, slots in use, slots allowed (-1 = no limit), sessions before it in line, 1 if its owner has its share, {calls}}
local session, owner = ARGV[6], ARGV[7]
expire()
local has = redis.call('ZSCORE', slots, session) or redis.call('ZSCORE', granted, session)
if not has then
  join(session, owner, ARGV[8], now + ARGV[10], ARGV[11])
  grant()
  has = redis.call('ZSCORE', granted, session)
end
local full = allowed()
if full == math.huge then full = -1 end
if has then
  give(slots, session, owner, now + ARGV[9])
  local _, old = place(session)
  if old then quit(session, old) end
  return {1, used(), full, 0, 0, called()}
end
local rank = redis.call('ZRANK', of .. owner, session)
local ahead, before = rank, true
for _, other in ipairs(redis.call('ZRANGE', turns, 0, -1)) do
  if other == owner then
    before = false
  else
    ahead = ahead + math.min(redis.call('ZCARD', of .. other), before and rank + 1 or rank)
  end
end
return {0, used(), full, ahead, atMost(owner) and 1 or 0, called()}
