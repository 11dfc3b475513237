-- lane.lua: what the scripts of a lane share.
-- KEYS[1] lane: zset, exclusive job that waits -> origin sequence; the one that has the turn is not in it
-- KEYS[2] jobs: hash, job -> "<busy until ms> <hold until ms> <holder>", "@" -> the job that has the turn
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

-- foreign reports whether an entry is that of another delivery than holder's.
local function foreign(theirs, holder)
  return theirs and theirs ~= '' and holder ~= '' and theirs ~= holder
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

-- head returns the first job of the lane and until when it is busy, or false.
-- Entries whose hold has run out are dropped on the way.
local function head()
  while true do
    local job = redis.call('ZRANGE', lane, 0, 0)[1]
    if not job then return false end
    local busy, hold = parse(redis.call('HGET', jobs, job))
    if busy and hold > now then return job, busy end
    redis.call('ZREM', lane, job)
    redis.call('HDEL', jobs, job)
  end
end

