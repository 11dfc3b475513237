-- lane.lua: what the scripts of a lane share.
-- KEYS[1] lane: zset, exclusive job -> origin sequence
-- KEYS[2] jobs: hash, job -> "<busy until ms> <hold until ms> <holder>", "@" -> the job that has the turn
local lane, jobs = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- entry reads a job's entry: busy until, hold until, holder; nil if it has none.
local function entry(job)
  local v = redis.call('HGET', jobs, job)
  if not v then return nil end
  local busy, hold, holder = string.match(v, '^(%d+) (%d+) (.*)$')
  return tonumber(busy), tonumber(hold), holder
end

local function put(job, busy, hold, holder)
  redis.call('HSET', jobs, job, string.format('%.0f %.0f ', busy, hold) .. holder)
end

local function drop(job)
  redis.call('ZREM', lane, job)
  redis.call('HDEL', jobs, job)
end

-- keep makes the keys outlive hold: when the last entry has run out, they go.
local function keep(key, hold)
  if redis.call('PTTL', key) < hold - now then redis.call('PEXPIRE', key, string.format('%.0f', 2 * (hold - now))) end
end

-- turn returns the job that has the turn and until when it is busy, or false.
-- One whose hold has run out has lost it.
local function turn()
  local job = redis.call('HGET', jobs, '@')
  if not job then return false end
  local busy, hold = entry(job)
  if busy and hold > now then return job, busy end
  drop(job)
  redis.call('HDEL', jobs, '@')
  return false
end

-- head returns the first job of the lane and until when it is busy, or false.
-- Entries whose hold has run out are dropped on the way.
local function head()
  while true do
    local job = redis.call('ZRANGE', lane, 0, 0)[1]
    if not job then return false end
    local busy, hold = entry(job)
    if busy and hold > now then return job, busy end
    drop(job)
  end
end

