-- Checks that this server, or on a Cluster the owner of the key, can be written.
-- KEYS[1]  a key for this purpose only; it expires at once

redis.call('SET', KEYS[1], '', 'PX', 1)
return 1
