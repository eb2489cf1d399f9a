-- Says who holds a claim.
-- KEYS[1]  the claim's key
-- Returns the holder, '' where there is none, and what is left of its lease in milliseconds.

return { redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]) }
