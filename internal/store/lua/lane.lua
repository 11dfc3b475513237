-- lane.lua: what the scripts of a lane share.
-- KEYS[1] lane: zset, exclusive job that waits -> origin sequence; the one that has the turn is not in it
-- KEYS[2] jobs: hash, job -> "<busy until ms> <hold until ms> <holder>", "@" -> the job that has the turn.
-- A holder "@<ms>" is nobody: the job waits in the schedules for its turn, and was
-- last called back then (0: never).
local lane, jobs = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- parse reads an entry: busy until, hold until, holder; nil for none.
local function parse(v)
  if not v then return nil end
  local busy, hold, holder = string.match(v, '^(%d+) (%d+) (.*)$')
  return tonumber(busy), tonumber(hold), holder
end

local function value(busy, hold, holder)
  return string.format('%.0f %.0f ', busy, hold) .. holder
end

-- outrun reports whether an entry is that of a later claim than holder's: holders
-- may begin with the sequence of their claim.
local function outrun(theirs, holder)
  local a, b = string.match(theirs or '', '^(%d+)/'), string.match(holder, '^(%d+)/')
  return a and b and tonumber(a) > tonumber(b)
end

-- foreign reports whether an entry is that of another delivery than holder's, and
-- not of an earlier claim.
local function foreign(theirs, holder)
  if not theirs or theirs == '' or string.byte(theirs) == 64 or holder == '' or theirs == holder then return false end
  return not outrun(holder, theirs)
end

-- called returns when a job that waits in the schedules was last called back, or
-- nil for one that waits elsewhere.
local function called(holder)
  local at = holder and string.match(holder, '^@(%d+)$')
  return at and tonumber(at)
end

-- keep makes a key outlive hold: when the last entry has run out, it goes.
local function keep(key, hold)
  if redis.call('PTTL', key) < hold - now then redis.call('PEXPIRE', key, string.format('%.0f', 2 * (hold - now))) end
end

-- turn returns the job that has the turn and until when it is busy, or false.
-- One whose hold has run out has lost it.
local function turn()
  local job = redis.call('HGET', jobs, '@')
  if not job then return false end
  local busy, hold = parse(redis.call('HGET', jobs, job))
  if busy and hold > now then return job, busy end
  redis.call('HDEL', jobs, '@', job)
  return false
end

-- head returns the first job of the lane, until when it is busy and its holder, or
-- false. Entries whose hold has run out are dropped on the way.
local function head()
  while true do
    local job = redis.call('ZRANGE', lane, 0, 0)[1]
    if not job then return false end
    local busy, hold, holder = parse(redis.call('HGET', jobs, job))
    if busy and hold > now then return job, busy, holder end
    redis.call('ZREM', lane, job)
    redis.call('HDEL', jobs, job)
  end
end

-- state says where a job is: 1 with a worker, 2 in the schedules, 0 elsewhere.
local function state(busy, holder)
  if busy > now then return 1 end
  if called(holder) then return 2 end
  return 0
end

-- front returns what follows a turn that was given back: the first job of the
-- lane and its state, then which of the first n to call back from the schedules.
-- One that was called moments ago is on its way.
local function front(n)
  local first, busy, holder = head()
  if not first then return {'', 0} end
  local out = {first, state(busy, holder)}
  local near = redis.call('ZRANGE', lane, 0, n - 1)
  local entries = redis.call('HMGET', jobs, unpack(near))
  for i, job in ipairs(near) do
    local busy, hold, holder = parse(entries[i])
    local at = called(holder)
    if at and now - at >= 2000 then
      redis.call('HSET', jobs, job, value(busy, hold, string.format('@%.0f', now)))
      out[#out + 1] = job
    end
  end
  return out
end
