-- Keeps an entry, unless a newer one is there, and tells every replica.
-- KEYS[1]  the entry's key
-- ARGV[1]  the blob (src/cache/store/codec.ts)
-- ARGV[2]  how long it is kept, in milliseconds
-- ARGV[3]  the channel
-- ARGV[4]  the message
-- Returns 1, or 0 where a newer entry is there.

-- Magic, format version and checksum take 8 bytes; then comes when it was stored: 8 bytes, big-endian,
-- so that comparing them as text compares the instants.
local there = redis.pcall('GETRANGE', KEYS[1], 0, 15)
-- Something that is no entry of this version, or no string at all, is not kept for its age.
local isEntry = type(there) == 'string' and #there == 16 and string.sub(there, 1, 4) == string.sub(ARGV[1], 1, 4)
if isEntry then
  -- Not by `<`: Lua compares text by the server's locale.
  for at = 9, 16 do
    local old, new = string.byte(there, at), string.byte(ARGV[1], at)
    if old > new then return 0 end
    if old < new then break end
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
