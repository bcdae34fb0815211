-- scan: the names of some keys of the ledger, and what kind of thing lies under each. For export and checks only.
--
-- KEYS  1 head: says which server of a Cluster is asked
-- ARGV  1 where the last page ended ('0': from the beginning), 2 the pattern of the ledger's names, 3 about how many
-- Replies  {OK, next, name, type, ...}   next is '0' after the last page; a name may come twice

local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local reply = { OK, page[1] }
for _, name in ipairs(page[2]) do
  reply[#reply + 1] = name
  reply[#reply + 1] = redis.call('TYPE', name).ok
end
return reply
