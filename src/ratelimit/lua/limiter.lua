-- The hard limits of one origin, for all replicas. The numbers in brackets refer to the table of rules at the top of
-- ../shared-limiter.ts. That file also explains the words (slot, escrow, part, quota).
--
-- KEYS     1 state: JSON
--          2 sends: sorted set of call ids; the score is the instant the call counts from
--          3 guesses: the entries of 2 that were estimated after a loss of data [12]
--          4 apps: sorted set of apps; the score is the app's last send
--          5 waiting: hash from process to the calls that wait there
--          6 ledger: a stream
--          In the same hash slot of a Cluster: PREFIX.slot:K and PREFIX.app:APP, sorted sets like 2.
-- ARGV[1]  the request as JSON: see Request in ../redis-limiter.ts
--
-- Instants are milliseconds of a logical clock. It follows Redis' clock, never goes back, and continues after a failover.

local request = cjson.decode(ARGV[1])
local STATE, SENDS, GUESSES, APPS, WAITING, LEDGER = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local DAY = 86400000
local KEEP_MS = string.format('%.0f', request.keepMs + request.stopAfterMs + request.shortMs)
local windows, state, now = request.windows, nil, nil

local function int(number) return string.format('%.0f', number) end
local function slotKey(k) return request.prefix .. 'slot:' .. int(k) end
local function appKey(app) return request.prefix .. 'app:' .. app end
local function spent(key, ms) return redis.call('ZCOUNT', key, '(' .. int(now - ms), '+inf') end

-- The part of a total that belongs to slot k. The parts of all slots add up to the total.
local function partOf(total, k)
  local rest = total % request.replicas
  return (total - rest) / request.replicas + (k <= rest and 1 or 0)
end

-- What slot k may spend without Redis, by window:
-- `escrow`         at any time
-- `part`           when it has been cut off for a whole window
-- `quota`          as Redis last confirmed to its holder
-- `mostUntilStop`  the most that it can send until it stops
local function promiseOf(k)
  local promise = {}
  for _, w in ipairs(windows) do
    promise[int(w.ms)] = {
      escrow = partOf(w.escrow, k), part = w.isLong and 0 or partOf(w.limit, k), mostUntilStop = w.mostUntilStop, quota = 0
    }
  end
  return promise
end

local function promiseIn(k, w) return state.slots[k].promise[int(w.ms)] or promiseOf(k)[int(w.ms)] end

-- The most of its own calls that the holder of slot k may have in a window while it is cut off.
local function mostWithoutRedis(k, w)
  local slot, promise = state.slots[k], promiseIn(k, w)
  local most = math.max(promise.escrow, promise.quota)
  -- [2] A holder that died earlier than [3] allows has not used its part.
  local neverUsedPart = slot.deadAt and not slot.isLost and slot.deadAt <= slot.untilAt + w.ms
  if slot.untilAt < now and not neverUsedPart then most = math.max(most, promise.part) end
  return most
end

-- [1][2][10] What slot k may still spend without Redis.
local function reserved(k, w)
  local slot, short = state.slots[k], windows[1]
  if not slot.untilAt then return 0 end
  local unspent = math.max(0, mostWithoutRedis(k, w) - spent(slotKey(k), w.ms))
  if not w.isLong then return unspent end
  if slot.isLost then return math.max(unspent, promiseIn(k, w).mostUntilStop) end
  if not slot.deadAt or short.isLong then return unspent end
  -- It could only send between its last command and its death, and the shortest window limited that.
  local cutOffMs = slot.deadAt - slot.untilAt + request.leaseMs + request.timeoutMs
  return math.min(unspent, mostWithoutRedis(k, short) * (math.ceil(cutOffMs / short.ms) + 1))
end

-- The latest instant at which a call can arrive that the holder of a slot sent without Redis.
local function stopsAt(slot)
  local at = slot.untilAt + slot.stopAfterMs
  return slot.deadAt and math.min(at, slot.deadAt + request.countMs) or at
end

-- [9] Calls may be missing in the log. Every slot counts as lapsed until its holder is back.
local function lose()
  state.isLost = true
  state.closedUntil = now + windows[1].ms + request.countMs
  state.countsUnknown = #windows > 1
  state.countsUnknownUntil = math.max(state.closedUntil, now + request.returnMs)
  for k = 1, math.max(request.replicas, #state.slots) do
    local slot = state.slots[k] or {}
    if slot.epoch ~= state.epoch then
      state.slots[k] = {
        isLost = true, untilAt = now - 1, stopAfterMs = slot.stopAfterMs or request.stopAfterMs, shortMs = slot.shortMs or request.shortMs,
        address = slot.address, promise = slot.promise or promiseOf(k)
      }
    end
  end
end

-- Reads the state and sets `now`.
local function load()
  local time = redis.call('TIME')
  local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local info = redis.pcall('INFO', 'server')
  local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
  local text = redis.call('GET', STATE)
  state = text and cjson.decode(text) or nil
  if state and state.run == run then
    now = math.max(clock + state.offset, state.now)
    -- [9] No replica sent a command for a lease, or this clock has jumped. Replicas that know more report first.
    local hasHolder = false
    for _, slot in ipairs(state.slots) do hasHolder = hasHolder or slot.untilAt ~= nil end
    if hasHolder and now - state.now > request.leaseMs then state.openAt = math.max(state.openAt, now + request.settleMs) end
  else
    -- [13] Another server, or no data. The calls in the data stay counted.
    local old = state
    now = math.max(old and old.now or clock, request.timeAtLeast or 0)
    state = {
      run = run, epoch = int(now) .. '.' .. request.process, slots = old and old.slots or {}, isLost = false,
      clockContinues = old ~= nil, openAt = old and now or now + request.settleMs, since = old and old.since or now, closedUntil = 0
    }
    if old then lose() end
  end
  state.offset, state.now = now - clock, now
end

-- Saves the state and encodes the answer.
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

-- Enters a call that counts from `at`. It belongs to slot k, if there is one.
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

-- The holder of slot k has sent a command.
local function renew(k)
  local slot = state.slots[k]
  slot.untilAt, slot.deadAt, slot.address = now + request.leaseMs, nil, request.address
end

-- [8] An operator reports that a process is dead, or a new process with the same address proves it.
local function markDead(isDead)
  for k, slot in ipairs(state.slots) do
    if slot.untilAt and not slot.deadAt and isDead(slot, k) then slot.deadAt = now end
  end
end

-- [8] A slot is free when its holder has certainly stopped and the holder's calls have left the short windows.
-- [11] In the long windows, what the holder may have sent without Redis stays counted.
local function freeSlots()
  for k, slot in ipairs(state.slots) do
    if slot.untilAt and now > stopsAt(slot) + slot.shortMs then
      local most = 0
      for _, w in ipairs(windows) do
        -- [11] The holder may not have received the last reply. It may then have sent other calls, earlier than these.
        if w.isLong then most = math.max(most, reserved(k, w) + (slot.lastGrants or 0)) end
      end
      for i = 1, most do
        redis.call('ZADD', SENDS, int(stopsAt(slot)), 'lapsed:' .. int(k) .. ':' .. int(slot.untilAt) .. ':' .. int(i))
      end
      state.slots[k] = {}
    end
  end
end

-- [12] A call that is known replaces one guess: the first guess that is not earlier than the call.
local function replaceGuess(at)
  local guess = redis.call('ZRANGEBYSCORE', GUESSES, int(at), '+inf', 'LIMIT', 0, 1)[1]
  if guess then
    redis.call('ZREM', GUESSES, guess)
    redis.call('ZREM', SENDS, guess)
  end
end

-- [12] The first replica that returns after a loss reports the counts it last received, by age, and the most that may
-- have been granted since. Each of these calls becomes a guess.
local function enterGuesses(digest)
  if not (digest and state.countsUnknown) then return end
  state.countsUnknown = false
  local known = redis.call('ZRANGE', SENDS, 0, -1, 'WITHSCORES')
  local from = state.clockContinues and digest.time or now - digest.elapsedMs
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
  guess(now, digest.grantedSince)
  for i = 1, #known, 2 do
    local at = tonumber(known[i + 1])
    -- After a jump of the clock the ages in the log are wrong. The guesses replace the whole log.
    if state.hasJumped then redis.call('ZREM', SENDS, known[i])
    elseif at > from - windows[#windows].ms then replaceGuess(at) end
  end
  state.hasJumped = nil
end

-- [6] Enters the calls that a replica uploads. They belong to slot k only.
local function upload(k)
  enterGuesses(request.digest)
  for _, send in ipairs(request.sends) do
    local at = now - send.ageMs
    local isKnown = redis.call('ZSCORE', SENDS, send.id)
    enter(send.id, send.app, at, k)
    for other = 1, #state.slots do
      if other ~= k then redis.call('ZREM', slotKey(other), send.id) end
    end
    if not isKnown and send.wasKnown then replaceGuess(at) end
    if not isKnown and send.call then
      enterInLedger(send.id, now - send.sentMs, send.call)
      if send.ended then endInLedger(send.id, at, send.ended) end
    end
  end
end

-- Whether slot k can be given away: the parts of all slots must fit into each short window.
local function fits(k)
  for _, w in ipairs(windows) do
    local sum = 0
    for other, slot in ipairs(state.slots) do
      if slot.untilAt and other ~= k then sum = sum + promiseIn(other, w).part end
    end
    if not w.isLong and sum + partOf(w.limit, k) > w.limit then return false end
  end
  return true
end

-- The slot of this process. After a loss, the process claims the slot that it had before.
-- @return the slot, whether it was claimed
local function ownSlot()
  local k, claimed = slotOf(request.process), request.slot and state.slots[request.slot]
  if k or not claimed or not claimed.isLost or request.epoch == state.epoch then return k, false end
  return request.slot, true
end

-- [9] This replica knows data that Redis has lost, or it has noticed that this clock has jumped.
-- @return whether new replicas may have got too many permits since the loss
local function noticeLoss()
  local hasOtherLive = false
  for _, slot in ipairs(state.slots) do
    local isLive = slot.holder and slot.untilAt >= now and slot.joinedAt < now - request.leaseMs
    hasOtherLive = hasOtherLive or isLive and slot.holder ~= request.process
  end
  -- A replica that has been live for a lease would have noticed the jump. If there is one, this process was suspended.
  if request.hasJumped and request.epoch == state.epoch and not hasOtherLive then
    state.epoch, state.isLost, state.clockContinues = int(now) .. '.' .. request.process, false, false
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
      -- [7] The new holder inherits neither calls nor quota.
      redis.call('DEL', slotKey(free))
      state.slots[free] = {
        holder = request.process, epoch = state.epoch, joinedAt = now, stopAfterMs = request.stopAfterMs, shortMs = request.shortMs,
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

-- [9] Whether a slot gets only its quota from the i-th window. Before `openAt`, replicas that know more than Redis can
-- report.
local function isClosed(i)
  if now < state.openAt then return true end
  if now < state.closedUntil and i == 1 then return true end
  return i > 1 and state.countsUnknown and now < state.countsUnknownUntil
end

-- What is free for slot k in each window. `fits` ignores that a window may be closed.
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

-- How long until `more` permits are free. A call on its way is treated as if it arrived now.
local function freeInMs(key, ms, more)
  local flat = redis.call('ZRANGEBYSCORE', key, '(' .. int(now - ms), '+inf', 'WITHSCORES', 'LIMIT', int(more - 1), 1)
  if not flat[2] then return request.pollMs end
  return math.min(tonumber(flat[2]), now) + ms + 1 - now
end

-- Grants a permit, or returns the reason of the refusal and the time until a new request makes sense.
local function take(wanted, rooms, k)
  local reason, waitMs = nil, 0
  local function refuse(why, ms) reason, waitMs = reason or why, math.max(waitMs, ms) end
  if now < state.openAt and not state.isLost then refuse('redis-away', state.openAt - now) end
  for i, w in ipairs(windows) do
    local room, leave = rooms[i], wanted.leave[i] or 0
    local missing = 1 + leave - room.free
    if missing > 0 then
      local ms = room.isClosed and request.pollMs or freeInMs(SENDS, w.ms, missing)
      refuse(room.free < 1 and 'budget' or 'reserved', ms)
    end
  end
  if wanted.perDay then
    local over = spent(appKey(wanted.app), DAY) + 1 - wanted.perDay
    if over > 0 then refuse('per-day', freeInMs(appKey(wanted.app), DAY, over)) end
  end
  if reason and not wanted.ignoresLimits then return { reason = reason, waitMs = math.max(1, math.ceil(waitMs)) } end
  enter(wanted.id, wanted.app, now + request.countMs, k)
  enterInLedger(wanted.id, now, wanted)
  for _, room in ipairs(rooms) do
    room.free, room.fits, room.spent = room.free - 1, room.fits - 1, room.spent + 1
  end
  return { isGranted = true }
end

-- A permit counts from the latest instant at which its call can arrive. When the arrival is known, it counts from then.
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

-- [10] What slot k may spend without Redis from now on. In a long window, that is as much as it can send until it stops,
-- but at most its share of half of what is free. A higher quota that it knows stays reserved until it has received the
-- lower one.
local function confirm(k, rooms)
  local quotas = {}
  for i, w in ipairs(windows) do
    local promise, held, own = state.slots[k].promise[int(w.ms)], request.quotas[i] or 0, spent(slotKey(k), w.ms)
    local quota = held
    if not rooms[i].isClosed then
      local free = math.max(0, rooms[i].fits)
      local wanted = promise.escrow
      if w.isLong then wanted = math.max(wanted, own + math.min(promise.mostUntilStop, math.floor(free / (2 * request.replicas)))) end
      -- If this clock stood still, calls count longer here than in the replica. `fits` may then be negative, and the
      -- replica must not replace each call that leaves its window by a new one.
      quota = math.max(0, math.min(wanted, own + rooms[i].fits))
      if not w.isLong then quota = math.max(quota, held) end
    end
    promise.quota = math.max(quota, held)
    quotas[i] = quota
  end
  return quotas
end

-- [12] How many calls count, by age. A replica reports this after a loss. The ages are parts of each window, so that old
-- calls leave the window in time.
local function digest()
  local counts, youngest = {}, 0
  for _, age in ipairs(request.digestAges) do
    local from = youngest == 0 and '+inf' or int(now - youngest)
    counts[#counts + 1] = { youngest, redis.call('ZCOUNT', SENDS, '(' .. int(now - age), from) }
    youngest = age
  end
  return counts
end

-- The counts by app, the next free permits, and the calls that wait at other replicas. Fairness and predictions need
-- them.
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
  for _, limit in ipairs(request.perDay) do
    local count = spent(appKey(limit[1]), DAY)
    described.today[#described.today + 1] = { limit[1], count, freeInMs(appKey(limit[1]), DAY, math.max(1, count + 1 - limit[2])) }
  end
  local flat = redis.call('HGETALL', WAITING)
  for i = 1, #flat, 2 do
    local process, report = flat[i], cjson.decode(flat[i + 1])
    if report.at < now - 1000 then redis.call('HDEL', WAITING, process)
    elseif process ~= request.process then described.waiting[#described.waiting + 1] = report.apps end
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
  if k then state.slots[k].lastGrants = granted end
  local answer = {
    kind = 'synced', results = results, quotas = k and confirm(k, rooms) or {}, windows = {},
    opensInMs = state.isLost and 0 or math.max(0, state.openAt - now)
  }
  for i, room in ipairs(rooms) do
    -- In a closed window, everything is reserved but what this slot may still spend.
    local allOthers = math.max(0, windows[i].limit - room.spent - math.max(0, room.free))
    answer.windows[i] = { room.spent, room.isClosed and allOthers or room.reserved }
  end
  if request.digestAges then
    if not (state.countsUnknown and now < state.countsUnknownUntil) then answer.digest = digest() end
    tidy(k)
  end
  if request.wantsState then answer.state = describe(rooms) end
  return reply(answer)
end

load()
if request.kind == 'time' then return reply({ kind = 'time' }) end
-- [5] A command that arrives late has no effect.
if now > request.timeAtLeast + request.timeoutMs then return reply({ kind = 'late' }) end
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
