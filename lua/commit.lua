-- commit: does all of a batch, or nothing of it.
--
-- KEYS  1 head, 2 appointments, 3 log of calls, 4 log of ends, then the keys of the operations below, in their order
-- ARGV  1 the time in ms ('': Redis's own), 2 who commits, 3 the channel of hints,
--       4 the sequence that must have been reached, 5 the same of the committer's own commits,
--       6 it must not be later than this, in ms ('': at any time),
--       then nine sections, each a count and so many operations:
--         expect   [key]  version
--         room     [key]  it must hold fewer members than this
--         remove   [key]
--         put      [key]  value
--         leave    [key]  member
--         join     [key]  member
--         appoint         member, ms ('': no appointment)
--         calls           value
--         ends            value
-- Replies  {OK, sequence, now}      it is done
--          {BEHIND}                 commits are missing that were there
--          {MOVED}                  a record has another version, or it is too late
--          {FULL, position, held}   this set of `room` (from 0) has no room
--          {FOREIGN, key}           this key holds what is not ours
--
-- Redis does not take back what a failed script has written: everything is looked at before anything is written.

local key_at, argument_at = 4, 6
-- So many wardens' last commits are kept; when more come, those of the long gone make room.
local WARDENS = 256

local function operations(keyed, fields)
  argument_at = argument_at + 1
  local found = {}
  for number = 1, tonumber(ARGV[argument_at]) do
    local operation = {}
    if keyed then
      key_at = key_at + 1
      operation.key = KEYS[key_at]
    end
    for field = 1, fields do
      argument_at = argument_at + 1
      operation[field] = ARGV[argument_at]
    end
    found[number] = operation
  end
  return found
end

local expect = operations(true, 1)
local room = operations(true, 1)
local remove = operations(true, 0)
local put = operations(true, 1)
local leave = operations(true, 1)
local join = operations(true, 1)
local appoint = operations(false, 2)
local calls = operations(false, 1)
local ends = operations(false, 1)

local head = head_of(KEYS[1], ARGV[1], ARGV[2])
if not head then return { FOREIGN, KEYS[1] } end
if head.sequence < tonumber(ARGV[4]) or head.own < tonumber(ARGV[5]) then return { BEHIND } end
if ARGV[6] ~= '' and head.now > tonumber(ARGV[6]) then return { MOVED } end

for _, operation in ipairs(expect) do
  local version = version_of(operation.key)
  if not version then return { FOREIGN, operation.key } end
  if version ~= operation[1] then return { MOVED } end
end
for number, operation in ipairs(room) do
  local held = size_of(operation.key)
  if not held then return { FOREIGN, operation.key } end
  if held >= tonumber(operation[1]) then return { FULL, number - 1, held } end
end
for _, sets in ipairs({ leave, join }) do
  for _, operation in ipairs(sets) do
    if not size_of(operation.key) then return { FOREIGN, operation.key } end
  end
end
if not size_of(KEYS[2]) then return { FOREIGN, KEYS[2] } end
for _, log in ipairs({ KEYS[3], KEYS[4] }) do
  if type(redis.pcall('XLEN', log)) == 'table' then return { FOREIGN, log } end
end

local function forget_long_gone()
  local fields, wardens = redis.call('HGETALL', KEYS[1]), {}
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 3) == 'by:' then
      wardens[#wardens + 1] = { name = fields[at], last = tonumber(fields[at + 1]) or 0 }
    end
  end
  table.sort(wardens, function(one, other) return one.last < other.last end)
  for number = 1, #wardens - WARDENS / 2 do
    redis.call('HDEL', KEYS[1], wardens[number].name)
  end
end

-- The first write is one that Redis refuses when its memory is full; once it is let through, the others are too.
local sequence = head.sequence + 1
local logged = head.logged
redis.call('HSET', KEYS[1], 'sequence', whole(sequence), 'logged', whole(logged + #calls + #ends), 'seen', whole(head.now),
  'by:' .. ARGV[2], whole(sequence))
if head.own == 0 and redis.call('HLEN', KEYS[1]) > WARDENS then forget_long_gone() end
for half, operations in ipairs({ calls, ends }) do
  for _, operation in ipairs(operations) do
    logged = logged + 1
    -- Refused only if the log is ahead of the head: somebody put one of them back without the other.
    local added = redis.pcall('XADD', KEYS[2 + half], whole(logged) .. '-0', 'd', operation[1])
    if type(added) == 'table' then return { FOREIGN, KEYS[2 + half] } end
  end
end
for _, operation in ipairs(remove) do
  redis.call('DEL', operation.key)
end
for _, operation in ipairs(put) do
  redis.call('SET', operation.key, whole(sequence) .. ' ' .. operation[1])
end
for _, operation in ipairs(leave) do
  redis.call('ZREM', operation.key, operation[1])
end
for _, operation in ipairs(join) do
  redis.call('ZADD', operation.key, 0, operation[1])
end
for _, operation in ipairs(appoint) do
  if operation[2] == '' then
    redis.call('ZREM', KEYS[2], operation[1])
  else
    redis.call('ZADD', KEYS[2], operation[2], operation[1])
  end
end
-- Only who leaves a set makes room or moves on. A hint: whoever may not publish has still committed.
if #leave > 0 then
  redis.pcall('PUBLISH', ARGV[3], ARGV[2])
end
return { OK, sequence, head.now }
