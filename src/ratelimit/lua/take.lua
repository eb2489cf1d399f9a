-- Takes a place in the windows for the one of the candidates whose turn it is, or says when to ask again.
-- Recorded before it is answered: a replica that dies now has spent it.
--
-- request  replica, gen, known        who asks, and what it knows of
--          queued                     who waits there
--          id                         of the send; the app of the candidate is appended
--          windows, reserve           as in the settings of the replica that asks
--          limits                     the windows as a line of the ledger has them
--          share                      the part of each window that a replica may use when it is cut off
--          slack                      how many sends a replica may not yet know of
--          own                        what the keys of apps' own sends begin with
--          shares, strangers          of each window: by app; of one that is not known
--          candidates                 app, rank, resource, cause, query, weight, perDay, share of each window
--          leaseMs                    by then a send has arrived, or never will
--          anyway                     whatever the limits say
-- Answers  lost: join first; granted: index, id, seq, isOwn; wait: forMs, apps; both: live, held, queued

if not isJoined() then return reply({ kind = 'lost' }) end

local others = readReplicas()
local seq = field('seq') or 0

local function limitOf(window)
  local held = others.heldIn(window.ms)
  if held == 0 then return window.limit end
  return window.limit - held * math.floor(window.limit * request.share) - request.slack
end

-- How many sends count in the window that ends now; or at an instant to come, if nothing is sent until then:
-- one on its way is taken to arrive now.
local function spentIn(set, ms, at)
  local from = (at or now) - ms
  return redis.call('ZCOUNT', set, from <= now and int(from) or '(' .. int(now), '+inf')
end

-- When there is a place; a send on its way is taken to arrive now.
local function freeAt(set, limit, ms)
  if limit <= 0 then return now + request.silentMs end
  local blocker = redis.call('ZREVRANGE', set, int(limit - 1), int(limit - 1), 'WITHSCORES')
  if #blocker == 0 then return now end
  return math.max(now, math.min(tonumber(blocker[2]), now) + ms + 1)
end

local function ownOf(candidate) return KEYS[3 + candidate.keys * 2] end
local function allOf(candidate) return KEYS[4 + candidate.keys * 2] end

local function isOverShare(candidate)
  for i, window in ipairs(request.windows) do
    local share = candidate.shares[i]
    if share < window.limit and spentIn(ownOf(candidate), window.ms) >= share then return true end
  end
  return false
end

-- Other apps that have asked lately.
local function othersAbout(app, within)
  local about = {}
  for other, at in pairs(readApps()) do
    if other ~= app and at.asked >= now - within then about[#about + 1] = other end
  end
  return about
end

local function isForeseen(window) return 2 * window.ms <= DAY end

-- How many more places of a window an app is likely to want within its share: as many as it had at most in the
-- window before; where it has just come, after its second one all that is left of its share but for what it has
-- let pass since.
local function wantedBy(set, share, ms, used, at)
  local longer = spentIn(set, 2 * ms, at)
  if longer > used then
    local before = math.max(spentIn(set, 1.5 * ms, at) - spentIn(set, 0.5 * ms, at), longer - used)
    return math.max(0, before - used)
  end
  local first = redis.call('ZRANGEBYSCORE', set, int(at - ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if used < 2 or not first then return 0 end
  return share - math.max(used, math.floor(share * (at - math.min(tonumber(first), now)) / ms))
end

-- What is left for the others: what each is likely to want, and one more, but of those no more than a tenth.
-- An app's key is none of KEYS, but in the same slot.
local function wantedByAll(about, i, window, at)
  local spare, wanted = math.floor(window.limit / 10), 0
  for _, other in ipairs(about) do
    local set, share = request.own .. other, (request.shares[other] or request.strangers)[i]
    local used = spentIn(set, window.ms, at)
    local left = share - used
    if left > 0 then
      local likely = isForeseen(window) and math.min(left, wantedBy(set, share, window.ms, used, at)) or 0
      local more = (likely < left and spare > 0) and 1 or 0
      spare, wanted = spare - more, wanted + likely + more
    end
  end
  return wanted
end

-- What is borrowed while others are about is spread over the window, and leaves them the last places.
-- Answers from: a function, from when on it may send, by what holds at an instant; holdsMs: what holds may be
-- otherwise after so long; nothing where it may now.
local function paceIn(candidate, i, window)
  local share = candidate.shares[i]
  if share >= window.limit then return nil end
  local withinShareAt = freeAt(ownOf(candidate), share, window.ms)
  if withinShareAt <= now then return nil end
  local about = othersAbout(candidate.app, math.max(2 * window.ms, request.aboutMs))
  if #about == 0 then return nil end
  local interval = math.ceil(window.ms / (window.limit - share))
  local borrowedAt = field('borrowed:' .. candidate.app)
  local evenly = borrowedAt and borrowedAt + interval or now
  local limit = limitOf(window)
  local function from(at)
    local wanted = math.min(window.limit - share, wantedByAll(about, i, window, at))
    local free = freeAt(sends, limit - wanted, window.ms)
    return math.min(withinShareAt, math.max(evenly, free))
  end
  return { from = from, holdsMs = isForeseen(window) and math.ceil(window.ms / request.looks) or math.huge }
end

-- The first instant, not before another, at which the shares let it send. What holds now need not hold then:
-- an app whose sends have left the window by then wants a place again, and one that was expected to want more
-- may not have. So one instant after the other is looked at.
local function pacedAt(candidate, from)
  local paces = {}
  for i, window in ipairs(request.windows) do paces[#paces + 1] = paceIn(candidate, i, window) end
  local at = from
  for look = 1, request.mostLooks do
    local found = at
    for _, pace in ipairs(paces) do
      local most = look < request.mostLooks and at + pace.holdsMs or math.huge
      found = math.max(found, math.min(pace.from(at), most))
    end
    if found == at then break end
    at = found
  end
  return at
end

local function passableAt(scope)
  local circuit = readCircuit(scope)
  if not circuit then return now end
  if now < circuit.openUntil then return circuit.openUntil end
  if circuit.probe == '' then return now end
  return math.max(now, circuit.probeUntil)
end

local function admittedAt(candidate)
  local at = now
  for _, window in ipairs(request.windows) do
    local limit = limitOf(window)
    if candidate.rank > 0 then limit = limit - math.floor(window.limit * request.reserve) end
    at = math.max(at, freeAt(sends, limit, window.ms))
  end
  if candidate.perDay then at = math.max(at, freeAt(allOf(candidate), candidate.perDay, DAY)) end
  return pacedAt(candidate, math.max(at, passableAt('origin'), passableAt(candidate.resource)))
end

local served = field('tag') or 0
local function tagOf(candidate)
  return math.max(served, field('tag:' .. candidate.app) or 0)
end

-- Whether replicas that are waiting, and were told to come by now, go before; as many as there are places.
local function isOthersTurn(candidate)
  local before = 0
  for name, wait in pairs(others.live) do
    local isDue = wait.at > 0 and wait.at <= now and now <= wait.at + request.graceMs
    local isBefore = wait.rank < candidate.rank or (wait.rank == candidate.rank and wait.tag < candidate.tag)
    if name ~= request.replica and isDue and isBefore then before = before + 1 end
  end
  if before == 0 then return false end
  for _, window in ipairs(request.windows) do
    if limitOf(window) - spentIn(sends, window.ms) <= before then return true end
  end
  return false
end

local function grant(candidate)
  local id = request.id .. '@' .. candidate.app
  local untilInstant = int(now + request.leaseMs)
  local isOwn = not isOverShare(candidate)
  if not isOwn then
    redis.call('HSET', state, 'borrowed:' .. candidate.app, int(now))
  else
    redis.call('ZADD', ownOf(candidate), untilInstant, id)
  end
  redis.call('ZADD', allOf(candidate), untilInstant, id)
  redis.call('ZADD', sends, untilInstant, id)
  local start = tagOf(candidate)
  redis.call('HSET', state, 'tag', string.format('%.17g', start),
    'tag:' .. candidate.app, string.format('%.17g', start + 1 / candidate.weight))
  for _, scope in ipairs({ 'origin', candidate.resource }) do
    local circuit = readCircuit(scope)
    if circuit then
      circuit.probe, circuit.probeUntil = id, now + request.leaseMs
      writeCircuit(scope, circuit)
    end
  end
  local entered = redis.call('HINCRBY', state, 'seq', 1)
  redis.call('XADD', ledger, '*', 'k', 's', 'i', id, 't', int(now), 'r', candidate.resource,
    'c', candidate.cause, 'q', candidate.query, 'o', isOwn and '1' or '0', 'l', request.limits)
  -- Now and then, what is too old to count is dropped.
  if entered % 64 == 0 then
    for _, set in ipairs({ sends, ownOf(candidate), allOf(candidate) }) do
      redis.call('ZREMRANGEBYSCORE', set, '-inf', '(' .. int(horizon()))
    end
  end
  tell({ kind = 'sent', seq = entered, id = id, isOwn = isOwn, ageMs = -request.leaseMs })
  return { kind = 'granted', id = id, seq = entered, isOwn = isOwn }
end

local order = {}
for i, candidate in ipairs(request.candidates) do
  redis.call('HSET', state, 'asked:' .. candidate.app, int(now))
  candidate.index, candidate.tag = i - 1, tagOf(candidate)
  order[i] = candidate
end
table.sort(order, function(a, b)
  if a.rank ~= b.rank then return a.rank < b.rank end
  if a.tag ~= b.tag then return a.tag < b.tag end
  return a.index < b.index
end)

-- The one that goes now waits no longer.
local function leaveQueue(candidate)
  local isFound = false
  request.queued = string.gsub(request.queued, '([^,:]+):(%d+):(%d+)', function(app, rank, length)
    if isFound or app ~= candidate.app or tonumber(rank) ~= candidate.rank then return nil end
    isFound = true
    return app .. ':' .. rank .. ':' .. int(length - 1)
  end)
end

local function answer(granted, candidate)
  granted.index = candidate.index
  leaveQueue(candidate)
  granted.live, granted.held, granted.queued = others.liveCount, others.apart, others.queued
  hear(request.replica, request.known)
  return reply(granted)
end

if request.anyway then return answer(grant(order[1]), order[1]) end

local function wait(at, why)
  local first = order[1]
  hear(request.replica, request.known, { at = at, rank = first.rank, tag = first.tag })
  return reply({ kind = 'wait', forMs = at - now, why = why, apps = describeApps(), live = others.liveCount, held = others.apart, queued = others.queued })
end

-- What a replica does not know of it could spend a second time when it is cut off now: so no more is
-- entered before it has caught up, which it does as soon as it hears of it, or has gone silent.
local oldest = math.min(others.oldest or seq, request.known)
if others.liveCount + others.silentCount > 1 and seq - oldest >= request.slack then
  return wait(now + request.catchUpMs, 'news')
end

local earliest = nil
for _, candidate in ipairs(order) do
  local at = admittedAt(candidate)
  if at <= now and isOthersTurn(candidate) then at = now + request.graceMs end
  if at <= now then return answer(grant(candidate), candidate) end
  if not earliest or at < earliest then earliest = at end
end
return wait(earliest, 'place')
