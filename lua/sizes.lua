-- sizes: how many members each set has.
--
-- KEYS  the sets
-- ARGV  none
-- Replies  {OK, size, ...}
--          {FOREIGN, key}    this key holds what is not ours

local reply = { OK }
for number, key in ipairs(KEYS) do
  local size = size_of(key)
  if not size then return { FOREIGN, key } end
  reply[number + 1] = size
end
return reply
