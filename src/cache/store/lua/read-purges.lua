-- Reads all purges. Removes those that are too old to matter, and folds the oldest ones if there are too many.
-- KEYS[1]  the sorted set of all purges: JSON by epoch
-- ARGV[1]  how long a purge is kept, in milliseconds
-- ARGV[2]  how many are kept
-- Returns the epoch up to which purges are forgotten, then the purges as JSON, oldest first.

local time = redis.call('TIME')
local horizon = tonumber(time[1]) * 1000 - tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', horizon))

-- The oldest purges become one purge of everything. That is safe: it only purges more.
local most = tonumber(ARGV[2])
local count = redis.call('ZCARD', KEYS[1])
if count > most then
  local old = redis.call('ZRANGE', KEYS[1], 0, count - math.ceil(most / 2) - 1)
  local epoch, hard = 0, false
  for _, text in ipairs(old) do
    local isRead, purge = pcall(cjson.decode, text)
    if isRead then
      epoch = math.max(epoch, purge.epoch)
      hard = hard or purge.hard
    end
  end
  local folded =
    string.format('{"epoch":%.0f,"scope":{"kind":"all"},"hard":%s,"folded":true}', epoch, tostring(hard))
  -- If Redis has no memory left for it, all purges stay.
  local added = redis.pcall('ZADD', KEYS[1], string.format('%.0f', epoch), folded)
  if type(added) == 'number' then
    for _, text in ipairs(old) do
      if text ~= folded then redis.call('ZREM', KEYS[1], text) end
    end
  end
end

local purges = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(purges, 1, string.format('%.0f', math.max(horizon, 0)))
return purges
