-- place.lua (after lane.lua): gives an exclusive job its place in the lane before,
-- or without, a worker that has it in hand. An entry that is there stays as it is;
-- only its hold may grow.
-- ARGV: 1 job, 2 origin sequence, 3 hold ms, 4 '@0' if it waits in the schedules for its turn, else ''
-- Result: 1 if it had no place, else 0
local job, hold = ARGV[1], now + ARGV[3]
local have = redis.call('HGET', jobs, job)
local busy, old, holder = parse(have)
if busy and old > now then
  if old < hold then
    redis.call('HSET', jobs, job, value(busy, hold, holder))
    keep(jobs, hold)
    if redis.call('EXISTS', lane) == 1 then keep(lane, hold) end
  end
  return 0
end
if busy then turn() end -- which it may have had, and has lost
redis.call('HSET', jobs, job, value(0, hold, ARGV[4]))
redis.call('ZADD', lane, 'LT', ARGV[2], job)
keep(jobs, hold)
keep(lane, hold)
return 1
