-- A replica joins, or joins anew after it was cut off or the server was restarted, and brings the sends it
-- knows of: what is missing here is entered, what arrived later than is known here is corrected. Sends are
-- told by how long ago they were, so that no other clock than this one's matters.
--
-- request  sends       id, app's keys, ageMs, and, where it is the replica's own and not in the
--                      ledger, resource, cause, query, limits (it was allowed under), sentMs (how long ago
--                      it went), status, durationMs
--          others      the replicas it knows of
--          isLast      no more sends follow
--          page        instead of all that: the sends that are kept here, from this one on
--          own         with it: what the keys of apps' own sends begin with
-- Answers  more: go on; joined: gen, seq, entry; page: sends as [id, instant, whether it is of its app's own share]

if request.page then
  local last = request.page + request.most - 1
  local flat = redis.call('ZRANGE', sends, int(request.page), int(last), 'WITHSCORES')
  local kept = {}
  for i = 1, #flat, 2 do
    -- The key of the app's own sends is none of KEYS, but in the same slot.
    local app = string.match(flat[i], '@([^@]*)$') or ''
    kept[#kept + 1] = { flat[i], flat[i + 1], redis.call('ZSCORE', request.own .. app, flat[i]) ~= false }
  end
  return reply({ kind = 'page', sends = kept })
end

local run = runOfServer()
local gen, knownRun = unpack(redis.call('HMGET', state, 'gen', 'run'))

-- A new generation: whoever else there is has to bring what it knows, and until then, like one that has
-- gone silent, may be sending by itself.
if not gen or knownRun ~= run then
  gen = int(now) .. '.' .. request.replica
  redis.call('HSET', state, 'gen', gen, 'run', run, 'begun', int(now))
  if redis.call('EXISTS', ledger) == 0 then redis.call('HSET', state, 'since', int(now)) end
  local absent = int(now - request.silentMs - 1) .. '|0|0|0|0|1'
  local known = redis.call('HKEYS', replicas)
  for _, name in ipairs(known) do redis.call('HSET', replicas, name, absent) end
  for _, name in ipairs(request.others) do
    if name ~= request.replica then redis.call('HSET', replicas, name, absent) end
  end
  tell({ kind = 'generation', gen = gen })
end

for _, send in ipairs(request.sends) do
  local instant = int(now - send.ageMs)
  local all = KEYS[4 + send.keys * 2]
  -- GT keeps the later instant; a send that is not there is added by it too.
  local isNew = redis.call('ZADD', sends, 'GT', instant, send.id) == 1
  redis.call('ZADD', all, 'GT', instant, send.id)
  if isNew then
    local seq = redis.call('HINCRBY', state, 'seq', 1)
    if send.cause then
      local sentAt = now - send.sentMs
      redis.call('XADD', ledger, '*', 'k', 's', 'i', send.id, 't', int(sentAt), 'r', send.resource,
        'c', send.cause, 'q', send.query, 'l', send.limits)
      if send.status then
        redis.call('XADD', ledger, '*', 'k', 'e', 'i', send.id, 's', send.status, 'd', int(send.durationMs), 't', instant)
      end
    else
      -- Known of, and lost here: whoever misses the message reads it all the same.
      redis.call('XADD', ledger, '*', 'k', 'n', 'i', send.id, 't', instant)
    end
    tell({ kind = 'sent', seq = seq, id = send.id, ageMs = send.ageMs })
  end
end
if not request.isLast then return reply({ kind = 'more' }) end

-- Not yet one of those who are heard: first it reads what others sent (look.lua). Until then, like one that
-- has gone silent, it may be cut off and send by itself.
redis.call('HSET', replicas, request.replica, int(now - request.silentMs - 1) .. '|0|0|0|0')
local last = redis.call('XREVRANGE', ledger, '+', '-', 'COUNT', 1)[1]
return reply({ kind = 'joined', gen = gen, seq = field('seq') or 0, entry = last and last[1] or '0-0' })
