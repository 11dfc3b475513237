-- slots.lua: what the scripts of the running slots and of the line share.
-- KEYS[1] slots: zset, session -> ms when its lease ends
-- KEYS[2] granted: zset, session that was in line and was given a slot -> ms until it must have come for it
-- KEYS[3] owners of slots: hash, session with a slot or a grant -> owner
-- KEYS[4] held: hash, owner -> how many slots and grants
-- KEYS[5] line: hash, session that waits -> "<ms its place ends> <owner> <job> ...", "@" -> the last turn given
-- KEYS[6] turns: zset, owner with somebody in line -> turn; the lowest is served next
-- KEYS[7] calls: hash, session that was granted -> "<ms when it is called next> <job> ..."
-- KEYS[8] learned: string "<slots that E2B allowed> <ms when it said so>"
-- KEYS[9] leaving: zset, session that is being paused to make room -> ms when that is given up
-- ARGV: 1 prefix of the owners' own lines (zset, session -> origin sequence of its job; same tag), 2 limit (0 = none),
-- 3 limit of an owner (0 = none), 4 ms a grant lives, 5 ms after which a learned limit is tried again
local slots, granted, ownerOf, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local line, turns, calls, learned, leaving = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local of, most, mostOfOwner = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local grantFor, probeAfter = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local callAgain = 1500 -- ms

local function int(n) return string.format('%.0f', n) end

-- used counts slots and grants.
local function used() return redis.call('ZCARD', slots) + redis.call('ZCARD', granted) end

-- allowed is how many may be used: the limit, or less where E2B has said so.
-- What it said is tried again by one more slot after a while, then by two, four,
-- and so on, until the configured limit counts alone again.
local function allowed()
  local n = most > 0 and most or math.huge
  local said, at = string.match(redis.call('GET', learned) or '', '^(%d+) (%d+)$')
  if not said then return n end
  local tried = math.floor((now - at) / probeAfter)
  if tried >= 20 then return n end
  return math.min(n, said + 2 ^ tried - 1)
end

-- atMost reports whether an owner has all the slots that one may have.
local function atMost(owner)
  return mostOfOwner > 0 and tonumber(redis.call('HGET', held, owner) or 0) >= mostOfOwner
end

-- drop takes a session's slot or grant away.
local function drop(session)
  local n = redis.call('ZREM', slots, session) + redis.call('ZREM', granted, session)
  redis.call('HDEL', calls, session)
  redis.call('ZREM', leaving, session)
  local owner = redis.call('HGET', ownerOf, session)
  if not owner then return n > 0 end
  redis.call('HDEL', ownerOf, session)
  if redis.call('HINCRBY', held, owner, -1) <= 0 then redis.call('HDEL', held, owner) end
  return true
end

-- give has a session hold a slot, or a grant, until a time.
local function give(key, session, owner, till)
  if redis.call('HSETNX', ownerOf, session, owner) == 1 then redis.call('HINCRBY', held, owner, 1) end
  if key == slots then
    redis.call('ZREM', granted, session)
    redis.call('HDEL', calls, session)
  end
  redis.call('ZADD', key, int(till), session)
end

-- expire drops slots and grants that nobody has kept up.
local function expire()
  for _, key in ipairs({slots, granted}) do
    for _, session in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', int(now))) do drop(session) end
  end
end

-- place reads a session's place: when it ends, owner, jobs; nil for none.
local function place(session)
  local v = redis.call('HGET', line, session)
  if not v then return nil end
  local till, owner, jobs = string.match(v, '^(%d+) (%S+) ?(.*)$')
  return tonumber(till), owner, jobs
end

-- keepPlace writes a session's place down.
local function keepPlace(session, till, owner, jobs)
  redis.call('HSET', line, session, int(till) .. ' ' .. owner .. ' ' .. jobs)
end

-- ticket counts the turns that were given to owners.
local function ticket() return redis.call('HINCRBY', line, '@', 1) end

-- quit takes a session out of the line.
local function quit(session, owner)
  redis.call('HDEL', line, session)
  redis.call('ZREM', of .. owner, session)
  if redis.call('ZCARD', of .. owner) == 0 then redis.call('ZREM', turns, owner) end
end

-- without returns a list of jobs without one of them, and with it at its end.
local function without(jobs, job)
  local rest = {}
  for j in string.gmatch(jobs, '%S+') do
    if j ~= job then rest[#rest + 1] = j end
  end
  return table.concat(rest, ' ')
end

-- join puts a job of a session into the line, or keeps its place. An owner that
-- had nobody there comes after the other owners.
local function join(session, owner, job, till, origin)
  local _, old, jobs = place(session)
  if old and old ~= owner then
    quit(session, old)
    jobs = nil
  end
  if redis.call('ZCARD', of .. owner) == 0 then redis.call('ZADD', turns, ticket(), owner) end
  redis.call('ZADD', of .. owner, 'LT', origin, session)
  jobs = without(jobs or '', job)
  if select(2, string.gsub(jobs, ' ', ' ')) >= 31 then jobs = string.match(jobs, ' (.*)$') end
  if jobs ~= '' then jobs = jobs .. ' ' end
  keepPlace(session, till, owner, jobs .. job)
end

-- head returns the first of an owner's line whose place has not ended, or nil.
local function head(owner)
  while true do
    local session = redis.call('ZRANGE', of .. owner, 0, 0)[1]
    if not session then
      redis.call('ZREM', turns, owner)
      return nil
    end
    local till, _, jobs = place(session)
    if till and till > now then return session, jobs end
    quit(session, owner)
  end
end

-- nextInLine returns who is to get the next slot: owners take turns, each in the
-- order in which its jobs were published, but for those that have their share.
local function nextInLine()
  for _, owner in ipairs(redis.call('ZRANGE', turns, 0, -1)) do
    if not atMost(owner) then
      local session, jobs = head(owner)
      if session then return session, owner, jobs end
    end
  end
end

-- grant gives what is free to those in line.
local function grant()
  while used() < allowed() do
    local session, owner, jobs = nextInLine()
    if not session then return end
    quit(session, owner)
    if redis.call('ZSCORE', turns, owner) then redis.call('ZADD', turns, ticket(), owner) end
    give(granted, session, owner, now + grantFor)
    redis.call('HSET', calls, session, '0 ' .. jobs)
  end
end

-- called lists those who were granted a slot and are to be called now: session,
-- jobs, session, jobs, ... Who does not come is called again.
local function called()
  local out = {}
  local all = redis.call('HGETALL', calls)
  for i = 1, #all, 2 do
    local at, jobs = string.match(all[i + 1], '^(%d+) (.*)$')
    if tonumber(at) <= now then
      redis.call('HSET', calls, all[i], int(now + callAgain) .. ' ' .. jobs)
      out[#out + 1], out[#out + 2] = all[i], jobs
    end
  end
  return out
end

