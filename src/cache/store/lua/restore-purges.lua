-- Stores purges again that Redis has lost, for example in a restart without its data.
-- KEYS[1]  the sorted set of all purges: JSON by epoch
-- ARGV[1]  how long a purge is kept, in milliseconds
-- ARGV[2]  the channel
-- ARGV[3..] pairs: epoch and JSON
-- Returns how many were missing.

local lost = {}
for at = 3, #ARGV, 2 do
  if redis.call('ZADD', KEYS[1], 'NX', ARGV[at], ARGV[at + 1]) == 1 then table.insert(lost, ARGV[at + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
-- Replicas that started after the loss do not know these purges yet.
if #lost > 0 then
  redis.call('PUBLISH', ARGV[2], '{"kind":"purged","purges":[' .. table.concat(lost, ',') .. ']}')
end
return #lost
