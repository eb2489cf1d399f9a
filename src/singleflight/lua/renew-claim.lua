-- Renews the lease of a claim if the caller holds it.
-- KEYS[1]  the claim's key
-- ARGV[1]  the holder
-- ARGV[2]  the lease, in milliseconds
-- Returns 1, or 0 if the caller does not hold the claim.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
