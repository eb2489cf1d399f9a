-- Claims a flight if it has no holder.
-- KEYS[1]  the claim's key
-- ARGV[1]  the claimant
-- ARGV[2]  the lease, in milliseconds
-- Returns the holder (the claimant or another) and the rest of its lease in milliseconds.

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return { ARGV[1], tonumber(ARGV[2]) } end
return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }
