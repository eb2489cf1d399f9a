-- A replica says that it is there and which sends it knows of, and hears what it has missed.
--
-- request  queued         who waits there
--          known, entry   what it knows of, and the last line of the ledger that it has seen
--          most           lines at once
--          leaves         it stops, and has nothing on its way: nothing is to be held back for it
-- Answers  lost: join first; news: seq, lines of the ledger as [entry, fields], circuits, apps, live, held, queued, replicas

if not isJoined() then return reply({ kind = 'lost' }) end
if request.leaves then
  redis.call('HDEL', replicas, request.replica)
  tell({ kind = 'changed' })
  return reply({ kind = 'news' })
end

local lines = redis.call('XRANGE', ledger, '(' .. request.entry, '+', 'COUNT', request.most)
local others = readReplicas()
local wait = others.live[request.replica]
-- It is back, or new: what was held back for it no longer is.
local heardAt = tonumber(split(redis.call('HGET', replicas, request.replica) or '0')[1])
if heardAt < now - request.silentMs then tell({ kind = 'changed' }) end
hear(request.replica, request.known, wait)
return reply({
  kind = 'news', seq = field('seq') or 0, lines = lines, isAll = #lines < request.most,
  circuits = readCircuits(), apps = describeApps(), live = others.liveCount, held = others.apart, queued = others.queued, replicas = redis.call('HKEYS', replicas)
})
