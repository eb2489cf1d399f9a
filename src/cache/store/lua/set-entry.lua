-- Stores an entry unless a newer one is stored, and announces it to every replica.
-- KEYS[1]  the entry's key
-- ARGV[1]  the blob (src/cache/store/codec.ts)
-- ARGV[2]  how long it is kept, in milliseconds
-- ARGV[3]  the channel
-- ARGV[4]  the message that announces it
-- Returns 1, or 0 if a newer entry is stored.

-- The magic number and the format version are 4 bytes. The next 8 bytes are the time of storing, big-endian.
local there = redis.pcall('GETRANGE', KEYS[1], 0, 11)
-- A value that is not an entry of this version is always replaced.
local isEntry = type(there) == 'string' and #there == 12 and string.sub(there, 1, 4) == string.sub(ARGV[1], 1, 4)
if isEntry and struct.unpack('>I8', there, 5) > struct.unpack('>I8', ARGV[1], 5) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
