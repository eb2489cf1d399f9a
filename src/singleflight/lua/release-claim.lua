-- Releases a claim if the caller holds it, and publishes how its flight ended.
-- KEYS[1]  the claim's key
-- ARGV[1]  the holder
-- ARGV[2]  the channel
-- ARGV[3]  the message
-- Returns 1, or 0 if the caller does not hold the claim.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
