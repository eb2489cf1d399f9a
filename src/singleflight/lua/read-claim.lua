-- Returns the holder of a claim.
-- KEYS[1]  the claim's key
-- Returns the holder, or an empty text if there is none, and the rest of its lease in milliseconds.

return { redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]) }
