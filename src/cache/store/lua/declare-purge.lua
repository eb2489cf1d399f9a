-- Declares a purge: numbers it, stores it and publishes it to every replica.
-- KEYS[1]  the sorted set of all purges: JSON by epoch
-- ARGV[1]  the scope of the purge, JSON
-- ARGV[2]  'true' if it is hard, else 'false'
-- ARGV[3]  the latest epoch the caller knows
-- ARGV[4]  how long a purge is kept, in milliseconds
-- ARGV[5]  the channel
-- Returns the purge as JSON.

-- The clock keeps epochs growing after Redis has lost all purges. The latest epoch in Redis and the latest one
-- that the caller knows keep them growing after the clock of Redis was set back.
local time = redis.call('TIME')
local epoch = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local latest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if latest[2] then epoch = math.max(epoch, tonumber(latest[2]) + 1) end
epoch = math.max(epoch, tonumber(ARGV[3]) + 1)

local purge = string.format('{"epoch":%.0f,"scope":%s,"hard":%s}', epoch, ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', epoch), purge)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PUBLISH', ARGV[5], '{"kind":"purged","purges":[' .. purge .. ']}')
return purge
