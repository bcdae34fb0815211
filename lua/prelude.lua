-- Stands before every script: the ledger's head and clock, and how a record and a set are looked at.
--
-- The head is a hash: `sequence` of the last commit, `logged` of the last decision record, `seen`, the greatest time that
-- was shown (ms since 1970), and `by:<who>`, the last commit of each warden. Time never steps back: what is shown is the
-- greater of the clock and `seen`.
-- A record is a string, "<version> <value>"; a set is a sorted set whose scores are all 0.
-- A key that holds something else is not ours: it is named to the caller, and left as it is.

local OK, MOVED, FULL, FOREIGN, BEHIND = 0, 1, 2, 3, 4

-- Lua writes large numbers with an exponent; Redis takes none.
local function whole(number)
  return string.format('%.0f', number)
end

-- Redis's own clock in ms, unless the caller brings the time (tests do).
local function wall(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- nil if the head is not ours.
local function head_of(key, given, who)
  local fields = redis.pcall('HMGET', key, 'sequence', 'logged', 'seen', 'by:' .. who)
  if fields.err then return nil end
  for field = 1, 4 do
    fields[field] = tonumber(fields[field] or 0)
    if not fields[field] then return nil end
  end
  local seen = fields[3]
  local now = math.max(wall(given), seen)
  return { sequence = fields[1], logged = fields[2], seen = seen, now = now, own = fields[4] }
end

-- The version as text, '0' if there is no record, nil if it is not ours. No longer part is read than a version takes.
local function version_of(key)
  local start = redis.pcall('GETRANGE', key, 0, 16)
  if type(start) == 'table' then return nil end
  if start == '' then return '0' end
  return string.match(start, '^(%d+) ')
end

-- How many members; nil if it is not ours.
local function size_of(key)
  local size = redis.pcall('ZCARD', key)
  if type(size) == 'table' then return nil end
  return size
end

