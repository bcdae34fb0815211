-- read: records and the ledger's clock, at one moment.
--
-- KEYS  1 head, then the records
-- ARGV  1 the time in ms ('': Redis's own), 2 who reads
-- Replies  {OK, now, sequence, own, record, ...}
--                           sequence of the last commit, own of the reader's; each record "<version> <value>", '' if there
--                           is none, or FOREIGN if it is not ours
--          {FOREIGN, key}   the head is not ours

-- A time that was shown is remembered when it is this much (ms) beyond what is remembered: reads write rarely.
local REMEMBER = 1000

local head = head_of(KEYS[1], ARGV[1], ARGV[2])
if not head then return { FOREIGN, KEYS[1] } end
if head.now >= head.seen + REMEMBER then
  -- Where nothing can be written (memory is full), reading goes on.
  redis.pcall('HSET', KEYS[1], 'seen', whole(head.now))
end
local reply = { OK, head.now, head.sequence, head.own }
for number = 2, #KEYS do
  local value = redis.pcall('GET', KEYS[number])
  if type(value) == 'table' then value = FOREIGN end
  -- `false` (no record) would reach the caller as a nil.
  reply[number + 3] = value or ''
end
return reply
