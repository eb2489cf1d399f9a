-- Checks that this server, or on a Cluster the owner of the key, accepts writes.
-- KEYS[1]  a key for this purpose only; it expires immediately

redis.call('SET', KEYS[1], '', 'PX', 1)
return 1
