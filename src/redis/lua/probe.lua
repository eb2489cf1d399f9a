-- Asks whether this server, or the one in charge of a key on a Cluster, can be read and written.
-- KEYS[1]  a key of its own, gone at once

redis.call('SET', KEYS[1], '', 'PX', 1)
return 1
