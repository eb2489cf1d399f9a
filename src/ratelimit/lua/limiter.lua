-- The hard limits of one origin, for all replicas. The table of the rules is in ../shared-limiter.ts; the numbers in
-- brackets below refer to it.
--
-- KEYS     1 state: JSON. 2 sends: id by the instant it counts from. 3 guesses: those sends that nobody vouches for.
--          4 apps: app by its last send. 5 waiting: hash of process to what waits there. 6 ledger: a stream.
--          Beside them, in the same slot of a Cluster: PREFIX.slot:K and PREFIX.app:APP, sends like 2.
-- ARGV[1]  the request, JSON: see Request in ../redis-limiter.ts
--
-- Instants are milliseconds of a logical clock: Redis' own, which never goes back and goes on after a failover.

local request = cjson.decode(ARGV[1])
local STATE, SENDS, GUESSES, APPS, WAITING, LEDGER = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local DAY = 86400000
local KEEP_MS = string.format('%.0f', request.keepMs + request.aloneMs + request.shortMs)
local windows, state, now = request.windows, nil, nil

local function int(number) return string.format('%.0f', number) end
local function slotKey(k) return request.prefix .. 'slot:' .. int(k) end
local function appKey(app) return request.prefix .. 'app:' .. app end
local function spent(key, ms) return redis.call('ZCOUNT', key, '(' .. int(now - ms), '+inf') end

-- Part of a limit that belongs to a slot; the parts of all slots add up to the limit.
local function partOf(total, k)
  local rest = total % request.replicas
  return (total - rest) / request.replicas + (k <= rest and 1 or 0)
end

-- What a slot may spend by itself, by window: `escrow` at any time, `part` when it has been cut off for long,
-- `quota` what Redis last confirmed for it, `alone` the most it can send by itself until it stops.
local function promiseOf(k)
  local promise = {}
  for _, w in ipairs(windows) do
    promise[int(w.ms)] = {
      escrow = partOf(w.escrow, k), part = w.isLong and 0 or partOf(w.limit, k), alone = w.alone, quota = 0
    }
  end
  return promise
end

-- The most calls of its own that the holder of a slot may count in a window while it is cut off.
local function mostAlone(k, w)
  local slot = state.slots[k]
  local promise = slot.promise[int(w.ms)] or promiseOf(k)[int(w.ms)]
  local most = math.max(promise.escrow, promise.quota)
  -- [2] Its part only when that has been reserved for a window [3]: one that died before has not spent it.
  local hadNoPart = slot.deadAt and not slot.isLost and slot.deadAt <= slot.untilAt + w.ms
  if slot.untilAt < now and not hadNoPart then most = math.max(most, promise.part) end
  return most, promise.alone
end

-- [1][2][10] Permits that a slot may spend by itself and has not spent yet.
local function reserved(k, w)
  local slot, short = state.slots[k], windows[1]
  if not slot.untilAt then return 0 end
  local most, alone = mostAlone(k, w)
  local unspent = math.max(0, most - spent(slotKey(k), w.ms))
  if not w.isLong then return unspent end
  if slot.isLost then return math.max(unspent, alone) end
  if not slot.deadAt or short.isLong then return unspent end
  -- The shortest window has bounded what it sent between its last message and its death.
  local cutOffMs = slot.deadAt - slot.untilAt + request.leaseMs + request.timeoutMs
  return math.min(unspent, mostAlone(k, short) * (math.ceil(cutOffMs / short.ms) + 1))
end

-- The latest arrival of what the holder of a slot sent by itself.
local function stopsAt(slot)
  local at = slot.untilAt + slot.aloneMs
  return slot.deadAt and math.min(at, slot.deadAt + request.countMs) or at
end

-- [9] Somebody may have sent what is not in the log: every slot counts as cut off until its holder is back.
local function lose()
  state.isLost, state.lostAt = true, now
  state.closedUntil = now + windows[1].ms + request.countMs
  state.isUnknown = #windows > 1
  state.unknownUntil = math.max(state.closedUntil, now + request.returnMs)
  for k = 1, math.max(request.replicas, #state.slots) do
    local slot = state.slots[k] or {}
    if slot.epoch ~= state.epoch then
      state.slots[k] = {
        isLost = true, untilAt = now - 1, aloneMs = slot.aloneMs or request.aloneMs, shortMs = slot.shortMs or request.shortMs,
        address = slot.address, promise = slot.promise or promiseOf(k)
      }
    end
  end
end

local function load()
  local time = redis.call('TIME')
  local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local info = redis.pcall('INFO', 'server')
  local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
  local text = redis.call('GET', STATE)
  state = text and cjson.decode(text) or nil
  if state and state.run == run then
    now = math.max(clock + state.offset, state.now)
    -- [9] Nobody came for a lease, or this clock has jumped: replicas that know come before anything is granted.
    local isHeld = false
    for _, slot in ipairs(state.slots) do isHeld = isHeld or slot.untilAt ~= nil end
    if isHeld and now - state.now > request.leaseMs then state.openAt = math.max(state.openAt, now + request.settleMs) end
  else
    -- [13] Another server, or none of our data. What is there stays counted.
    local old = state
    now = math.max(old and old.now or clock, request.low or 0)
    state = {
      run = run, epoch = int(now) .. '.' .. request.process, slots = old and old.slots or {}, isLost = false,
      continues = old ~= nil, openAt = old and now or now + request.settleMs, since = old and old.since or now, closedUntil = 0
    }
    if old then lose() end
  end
  state.offset, state.now = now - clock, now
end

local function reply(answer)
  answer.time, answer.epoch = now, state.epoch
  redis.call('SET', STATE, cjson.encode(state), 'PX', KEEP_MS)
  return cjson.encode(answer)
end

local function slotOf(process)
  for k, slot in ipairs(state.slots) do
    if slot.holder == process then return k end
  end
  return nil
end

local function enter(id, app, at, k)
  redis.call('ZADD', SENDS, int(at), id)
  if k then redis.call('ZADD', slotKey(k), int(at), id) end
  redis.call('ZADD', appKey(app), int(at), id)
  redis.call('ZADD', APPS, 'GT', int(at), app)
  redis.call('PEXPIRE', appKey(app), KEEP_MS)
end

local function enterInLedger(id, at, call)
  redis.call('XADD', LEDGER, '*', 'k', 's', 'i', id, 't', int(at), 'r', call.resource, 'c', call.cause, 'q', call.query,
    'l', request.limits)
end

local function endInLedger(id, at, ended)
  redis.call('XADD', LEDGER, '*', 'k', 'e', 'i', id, 's', ended.status, 'd', int(ended.durationMs), 't', int(at))
end

-- The holder has said something.
local function renew(k)
  local slot = state.slots[k]
  slot.untilAt, slot.deadAt, slot.address = now + request.leaseMs, nil, request.address
end

-- [8] An operator says that a process is dead. A process that listens where another one did proves that it is.
local function markDead(isDead)
  for k, slot in ipairs(state.slots) do
    if slot.untilAt and not slot.deadAt and isDead(slot, k) then slot.deadAt = now end
  end
end

-- [8] A slot is free when its holder has certainly stopped, and what it sent has left the short windows. [11] In the
-- long ones, what it may have sent by itself counts on.
local function freeSlots()
  for k, slot in ipairs(state.slots) do
    if slot.untilAt and now > stopsAt(slot) + slot.shortMs then
      local most = 0
      for _, w in ipairs(windows) do
        -- A permit in a reply that it did not hear counts, but later than what it sent instead.
        if w.isLong then most = math.max(most, reserved(k, w) + (slot.unheard or 0)) end
      end
      for i = 1, most do
        redis.call('ZADD', SENDS, int(stopsAt(slot)), 'gone:' .. int(k) .. ':' .. int(slot.untilAt) .. ':' .. int(i))
      end
      state.slots[k] = {}
    end
  end
end

-- [12] The first replica that returns after a loss brings what counted when it last heard, by age, and what the
-- shortest window may have let through since. A send that is known takes the place of one guess: the earliest that is
-- not earlier.
local function dropGuess(at)
  local guess = redis.call('ZRANGEBYSCORE', GUESSES, int(at), '+inf', 'LIMIT', 0, 1)[1]
  if guess then
    redis.call('ZREM', GUESSES, guess)
    redis.call('ZREM', SENDS, guess)
  end
end

local function learn(digest)
  if not (digest and state.isUnknown) then return end
  state.isUnknown = false
  local known = redis.call('ZRANGE', SENDS, 0, -1, 'WITHSCORES')
  local from = state.continues and digest.time or now - digest.elapsedMs
  local number = 0
  local function guess(at, count)
    for _ = 1, count do
      number = number + 1
      local id = 'guess:' .. state.epoch .. ':' .. int(number)
      redis.call('ZADD', SENDS, int(at), id)
      redis.call('ZADD', GUESSES, int(at), id)
    end
  end
  for _, bucket in ipairs(digest.counts) do guess(from - bucket[1], bucket[2]) end
  guess(now, digest.since)
  for i = 1, #known, 2 do
    local at = tonumber(known[i + 1])
    -- After a jump the ages in the log are wrong; the guesses stand for all of it.
    if state.hasJumped then redis.call('ZREM', SENDS, known[i])
    elseif at > from - windows[#windows].ms then dropGuess(at) end
  end
  state.hasJumped = nil
end

-- [6] Enters what a replica sent.
local function upload(k)
  learn(request.digest)
  for _, send in ipairs(request.sends) do
    local at = now - send.ageMs
    local isKnown = redis.call('ZSCORE', SENDS, send.id)
    enter(send.id, send.app, at, k)
    for other = 1, #state.slots do
      if other ~= k then redis.call('ZREM', slotKey(other), send.id) end
    end
    if not isKnown and send.wasTold then dropGuess(at) end
    if not isKnown and send.call then
      enterInLedger(send.id, now - send.sentMs, send.call)
      if send.ended then endInLedger(send.id, at, send.ended) end
    end
  end
end

-- A promise is only made while all promises fit together.
local function fits(k)
  for _, w in ipairs(windows) do
    local sum = 0
    for other, slot in ipairs(state.slots) do
      if slot.untilAt and other ~= k then sum = sum + (slot.promise[int(w.ms)] or promiseOf(other)[int(w.ms)]).part end
    end
    if not w.isLong and sum + partOf(w.limit, k) > w.limit then return false end
  end
  return true
end

-- The slot of this process; after a loss, the one that it says it had.
local function ownSlot()
  local k, claimed = slotOf(request.process), request.slot and state.slots[request.slot]
  if k or not claimed or not claimed.isLost or request.epoch == state.epoch then return k, false end
  return request.slot, true
end

-- This replica knows of a state that is gone, or has seen this clock jump.
local function noticeLoss()
  local isAnybodyLive = false
  for _, slot in ipairs(state.slots) do
    local isLive = slot.holder and slot.untilAt >= now and slot.joinedAt < now - request.leaseMs
    isAnybodyLive = isAnybodyLive or isLive and slot.holder ~= request.process
  end
  -- Whoever has been live for a lease has seen this clock go on evenly: then it is the other machine that was suspended.
  if request.hasJumped and request.epoch == state.epoch and not isAnybodyLive then
    state.epoch, state.isLost, state.continues = int(now) .. '.' .. request.process, false, false
    state.hasJumped = true
  end
  if not request.epoch or request.epoch == state.epoch or state.isLost then return false end
  lose()
  return now > state.openAt
end

local function join()
  local mayHaveOverrun = noticeLoss()
  if request.epoch ~= state.epoch and not request.isFull then return reply({ kind = 'upload' }) end
  local k, isBack = ownSlot()
  local isNew = k == nil
  if isBack then
    local slot = state.slots[k]
    slot.isLost, slot.holder, slot.epoch, slot.joinedAt = false, request.process, state.epoch, now
    for _, promise in pairs(slot.promise) do promise.quota = 0 end
  end
  for free = 1, request.replicas do
    state.slots[free] = state.slots[free] or {}
    if not k and now >= state.openAt and not state.slots[free].untilAt and fits(free) then
      -- [7] What the last holder sent is no longer this slot's: Redis confirms a quota only when there is room for it.
      redis.call('DEL', slotKey(free))
      state.slots[free] = {
        holder = request.process, epoch = state.epoch, joinedAt = now, aloneMs = request.aloneMs, shortMs = request.shortMs,
        promise = promiseOf(free)
      }
      k = free
    end
  end
  upload(k)
  if k then
    renew(k)
    for i, w in ipairs(windows) do
      local promise = state.slots[k].promise[int(w.ms)]
      if promise and not isNew and request.slot == k then promise.quota = math.max(promise.quota, request.quotas[i] or 0) end
    end
  end
  return reply({ kind = 'joined', slot = k, isNew = isNew, mayHaveOverrun = mayHaveOverrun })
end

local function isClosed(i)
  -- Replicas that know of a loss may yet come.
  if now < state.openAt then return true end
  if now < state.closedUntil and i == 1 then return true end
  return i > 1 and state.isUnknown and now < state.unknownUntil
end

-- What is free for slot k in each window.
local function roomsFor(k)
  local rooms = {}
  for i, w in ipairs(windows) do
    local room = { spent = spent(SENDS, w.ms), reserved = 0, isClosed = isClosed(i) }
    for other = 1, #state.slots do
      if other ~= k then room.reserved = room.reserved + reserved(other, w) end -- [1]
    end
    room.fits = w.limit - room.spent - room.reserved
    room.free = room.fits
    if room.isClosed then
      local promise = k and state.slots[k].promise[int(w.ms)]
      room.free = promise and promise.quota - spent(slotKey(k), w.ms) or 0
    end
    rooms[i] = room
  end
  return rooms
end

-- When so many more permits come free; a send on its way is taken to arrive now.
local function inMs(key, ms, more)
  local flat = redis.call('ZRANGEBYSCORE', key, '(' .. int(now - ms), '+inf', 'WITHSCORES', 'LIMIT', int(more - 1), 1)
  if not flat[2] then return request.pollMs end
  return math.min(tonumber(flat[2]), now) + ms + 1 - now
end

local function take(wanted, rooms, k)
  local reason, waitMs = nil, 0
  local function refuse(why, ms) reason, waitMs = reason or why, math.max(waitMs, ms) end
  if now < state.openAt and not state.isLost then refuse('joining', state.openAt - now) end
  for i, w in ipairs(windows) do
    local room, leave = rooms[i], wanted.leave[i] or 0
    local missing = 1 + leave - room.free
    if missing > 0 then
      local ms = room.isClosed and request.pollMs or inMs(SENDS, w.ms, missing)
      refuse(room.free < 1 and 'budget' or 'reserved', ms)
    end
  end
  if wanted.perDay then
    local over = spent(appKey(wanted.app), DAY) + 1 - wanted.perDay
    if over > 0 then refuse('per-day', inMs(appKey(wanted.app), DAY, over)) end
  end
  if reason and not wanted.isAnyway then return { reason = reason, inMs = math.max(1, math.ceil(waitMs)) } end
  enter(wanted.id, wanted.app, now + request.countMs, k)
  enterInLedger(wanted.id, now, wanted)
  for _, room in ipairs(rooms) do
    room.free, room.fits, room.spent = room.free - 1, room.fits - 1, room.spent + 1
  end
  return { isGranted = true }
end

-- A permit counts from the latest instant its call can arrive, and from its arrival when that is known.
local function settle(ended, k)
  local keys = { SENDS, appKey(ended.app) }
  if k then keys[3] = slotKey(k) end
  local at = now - ended.ageMs
  local isKnown = redis.call('ZSCORE', SENDS, ended.id)
  for _, key in ipairs(keys) do
    if ended.status == 'unsent' then redis.call('ZREM', key, ended.id)
    else redis.call('ZADD', key, 'XX', 'LT', int(at), ended.id) end
  end
  if isKnown then endInLedger(ended.id, at, ended) end
end

-- [10] What slot k may spend by itself from now on. In a long window that is as much as it can send until it stops,
-- but at most its share of half of what is free. What it holds already stays reserved until it says that it has
-- heard of less.
local function confirm(k, rooms)
  local quotas = {}
  for i, w in ipairs(windows) do
    local promise, held, own = state.slots[k].promise[int(w.ms)], request.quotas[i] or 0, spent(slotKey(k), w.ms)
    local quota = held
    if not rooms[i].isClosed then
      local free = math.max(0, rooms[i].fits)
      local wanted = promise.escrow
      if w.isLong then wanted = math.max(wanted, own + math.min(promise.alone, math.floor(free / (2 * request.replicas)))) end
      -- What is here counts longer than what the replica knows of it, if this clock stood still. So `fits` may be
      -- negative, and then the replica must not replace its own calls one for one.
      quota = math.max(0, math.min(wanted, own + rooms[i].fits))
      if not w.isLong then quota = math.max(quota, held) end
    end
    promise.quota = math.max(quota, held)
    quotas[i] = quota
  end
  return quotas
end

-- What counts, by age: [12] needs it after a loss. Boundaries are parts of each window, so that it ages in time.
local function digest()
  local counts, youngest = {}, 0
  for _, age in ipairs(request.digestAges) do
    local from = youngest == 0 and '+inf' or int(now - youngest)
    counts[#counts + 1] = { youngest, redis.call('ZCOUNT', SENDS, '(' .. int(now - age), from) }
    youngest = age
  end
  return counts
end

local function describe(rooms)
  local described = { windows = {}, today = {}, waiting = {} }
  local apps = redis.call('ZRANGEBYSCORE', APPS, int(now - windows[#windows].ms), '+inf')
  for i, w in ipairs(windows) do
    local byApp, freeIn = {}, {}
    for _, app in ipairs(apps) do
      local count = spent(appKey(app), w.ms)
      if count > 0 then byApp[#byApp + 1] = { app, count } end
    end
    local flat = redis.call('ZRANGEBYSCORE', SENDS, '(' .. int(now - w.ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 100)
    for n = 2, #flat, 2 do freeIn[#freeIn + 1] = math.min(tonumber(flat[n]), now) + w.ms + 1 - now end
    described.windows[i] = { byApp = byApp, freeIn = freeIn }
  end
  for _, limit in ipairs(request.perDay or {}) do
    local count = spent(appKey(limit[1]), DAY)
    described.today[#described.today + 1] = { limit[1], count, inMs(appKey(limit[1]), DAY, math.max(1, count + 1 - limit[2])) }
  end
  local told = redis.call('HGETALL', WAITING)
  for i = 1, #told, 2 do
    local one = cjson.decode(told[i + 1])
    if one.at < now - 1000 then redis.call('HDEL', WAITING, told[i])
    elseif told[i] ~= request.process then described.waiting[#described.waiting + 1] = one.apps end
  end
  return described
end

local function tidy(k)
  local keep = '(' .. int(now - request.keepMs)
  for _, key in ipairs({ SENDS, GUESSES, APPS }) do redis.call('ZREMRANGEBYSCORE', key, '-inf', keep) end
  if k then redis.call('ZREMRANGEBYSCORE', slotKey(k), '-inf', keep) end
  local dropped = redis.call('XTRIM', LEDGER, 'MINID', '~', int(math.max(0, now - request.retentionMs))) + redis.call('XTRIM', LEDGER, 'MAXLEN', '~', int(request.maxRecords * 2))
  local first = dropped > 0 and redis.call('XRANGE', LEDGER, '-', '+', 'COUNT', 1)[1]
  if first then state.since = tonumber(string.match(first[1], '^%d+')) end
end

local function sync()
  local k = slotOf(request.process)
  if request.epoch ~= state.epoch or request.slot ~= k then return reply({ kind = 'lost' }) end
  for _, ended in ipairs(request.ended) do settle(ended, k) end
  if request.waiting then
    redis.call('HSET', WAITING, request.process, cjson.encode({ at = now, apps = request.waiting }))
  end
  if request.isLeaving then
    if k then state.slots[k] = {} end
    redis.call('HDEL', WAITING, request.process)
    return reply({ kind = 'left' })
  end
  if k then renew(k) end
  local rooms, results, granted = roomsFor(k), {}, 0
  for _, wanted in ipairs(request.takes) do
    local result = take(wanted, rooms, k)
    results[#results + 1] = result
    if result.isGranted then granted = granted + 1 end
    redis.call('ZREMRANGEBYSCORE', appKey(wanted.app), '-inf', '(' .. int(now - request.keepMs))
  end
  if k then state.slots[k].unheard = granted end
  local answer = {
    kind = 'synced', results = results, quotas = k and confirm(k, rooms) or {}, windows = {},
    opensInMs = state.isLost and 0 or math.max(0, state.openAt - now)
  }
  for i, room in ipairs(rooms) do
    -- In a closed window, all but what this slot may still spend is reserved.
    local held = math.max(0, windows[i].limit - room.spent - math.max(0, room.free))
    answer.windows[i] = { room.spent, room.isClosed and held or room.reserved }
  end
  if request.digestAges then
    if not (state.isUnknown and now < state.unknownUntil) then answer.digest = digest() end
    tidy(k)
  end
  if request.wantsState then answer.state = describe(rooms) end
  return reply(answer)
end

load()
if request.kind == 'time' then return reply({ kind = 'time' }) end
-- [5] What comes late has no effect.
if now > request.low + request.timeoutMs then return reply({ kind = 'late' }) end
if request.kind == 'replicas' then markDead(function(slot, k) return slot.holder == request.dead or int(k) == request.dead end) end
if request.address then
  markDead(function(slot)
    return slot.address == request.address and slot.holder ~= request.process and slot.untilAt < now
  end)
end
freeSlots()
if request.kind == 'join' then return join() end
if request.kind == 'upload' then
  noticeLoss()
  upload(ownSlot())
  return reply({ kind = 'uploaded' })
end
if request.kind == 'sync' then return sync() end
if request.kind == 'replicas' then
  local replicas = {}
  for k, slot in ipairs(state.slots) do
    if slot.untilAt then
      replicas[#replicas + 1] = {
        slot = k, holder = slot.holder or '', isLive = slot.untilAt >= now, freeInMs = stopsAt(slot) + slot.shortMs - now
      }
    end
  end
  return reply({ kind = 'replicas', replicas = replicas })
end
return redis.error_reply('unknown request')
