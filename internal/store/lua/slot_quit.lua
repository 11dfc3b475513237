-- slot_quit.lua (after slots.lua): a job does not want a slot any more. When it
-- was the last of its session, the session leaves the line, or gives back what it
-- was granted and has not come for.
-- ARGV: 6 session, 7 job
-- Result: {calls}
local session = ARGV[6]
expire()
local till, owner, jobs = place(session)
if till then
  jobs = without(jobs, ARGV[7])
  if jobs == '' then
    quit(session, owner)
  else
    keepPlace(session, till, owner, jobs)
  end
end
local call = redis.call('HGET', calls, session)
if call then
  local when, them = string.match(call, '^(%d+) (.*)$')
  them = without(them, ARGV[7])
  if them == '' then drop(session) else redis.call('HSET', calls, session, when .. ' ' .. them) end
end
grant()
return called()
