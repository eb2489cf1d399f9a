-- The shared purse of one origin, and the slots of the own purses. docs/budget.md explains the purses. The numbers in
-- brackets are the rules at the top of shared-purse.ts.
--
-- KEYS     1 state: JSON
--          2 shared: sorted set of the calls of the shared purse; the score is the instant that a call counts from
--          3 own: the same for the own purses; a member is the slot, a blank, and the id of the call
--          4 waiting: hash from process to the calls that wait there
--          5 ledger: a stream
--          6 the state of version 0.2, 7 its calls
--          In the same hash slot of a Cluster: PREFIX.day:APP, sorted sets like 2, for apps with a limit for the day
-- ARGV[1]  the request as JSON: see Request in redis-script.ts
--
-- Instants are milliseconds of the script's own time. It follows Redis' clock where the replicas' clocks confirm it [6].

local request = cjson.decode(ARGV[1])
local STATE, SHARED, OWN, WAITING, LEDGER, OLD_STATE, OLD_SENDS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local DAY = 86400000
-- [6] Redis' clock may step forward by this much while no replica watches it.
local MOST_STEP = 5000
local windows, shortest = request.windows, request.windows[1]
local state, now

local function int(number) return string.format('%.0f', number) end
-- Longer by what the clocks may differ.
local function span(ms) return ms * (1 + request.drift) + request.slackMs end
local function count(key, ms) return redis.call('ZCOUNT', key, '(' .. int(now - span(ms)), '+inf') end

-- A debt is a number of calls that count in one window, and of which no instants are known.
local function owed(debts, ms)
  local sum = 0
  for _, debt in ipairs(debts) do
    if debt.ms == ms and debt.till > now then sum = sum + debt.count end
  end
  return sum
end

local function owe(debts, ms, number)
  local kept = {}
  for _, debt in ipairs(debts) do
    if debt.till > now then kept[#kept + 1] = debt end
  end
  if number > 0 then kept[#kept + 1] = { ms = ms, count = number, till = now + span(ms + request.countMs) } end
  return kept
end

-- [6] The latest time that the asker's clock allows, and the clocks of the others that were heard a moment ago. Redis' clock
-- carries what they allowed over that moment. If it stepped forward meanwhile, the asker's clock shows it.
local function latestTime(clock)
  local latest, me = request.latest, state.processes[request.process]
  local step = math.max(0, me and me.ahead and me.ahead + clock - latest or 0)
  for _, process in pairs(state.processes) do
    if process.ahead then
      process.ahead = process.ahead - step
      local isRecent = process.clock <= clock and process.clock > clock - request.silentMs
      if isRecent and process ~= me then latest = math.min(latest, process.ahead + clock) end
    end
  end
  return latest
end

-- [6] Moves the time as far as Redis' clock and the replicas' clocks allow. Without a clock, an asker moves no time, unless
-- the time stood still while it watched, because it is alone. Then Redis' clock may have stepped before: the time stays
-- behind. @return Redis' clock
local function readTime()
  local time = redis.call('TIME')
  local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local text = redis.call('GET', STATE)
  if not text then
    redis.call('DEL', SHARED, OWN)
    now = math.floor(math.min(clock, request.latest or clock))
    state = {
      time = now, clock = clock, seq = 0, epoch = int(now) .. request.process, since = now, openAt = now + request.settleMs,
      closedUntil = 0, shared = 0, own = 0, counts = {}, debts = {}, slots = {}, processes = {}, keepMs = DAY
    }
    return clock
  end
  state = cjson.decode(text)
  now = state.time
  local isBehind = request.latest and not request.stoodAt and now - request.latest > request.silentMs
  if isBehind or (request.stoodAt or now) ~= now then request.isWatching = true end
  if not request.isWatching then
    local to = now + math.max(0, clock - state.clock)
    if request.stoodAt then to = math.max(now, to - MOST_STEP) else to = math.max(to, clock) end
    if request.latest then to = math.min(to, latestTime(clock)) end
    now, state.clock = math.max(now, math.floor(to)), clock
  end
  return clock
end

-- [3] All slots have one size. Others get no slot while one of this size may be in use.
local function purseOf(ms)
  for _, w in ipairs(state.purses and state.purses.windows or {}) do
    if w.ms == ms then return w.own * state.purses.replicas end
  end
  return 0
end
local function room(w)
  local shared = w.limit - math.max(request.replicas * w.own, purseOf(w.ms))
  return shared - count(SHARED, w.ms) - owed(state.debts, w.ms)
end

-- [5] Data were lost. `counts` are what counted `ageMs` ago, by window.
local function lose(counts, ageMs)
  local debts = {}
  for i, w in ipairs(windows) do
    if i > 1 then
      local shared, short = w.limit - request.replicas * w.own, shortest.limit - request.replicas * shortest.own
      local most = (counts[int(w.ms)] or shared) + short * (math.ceil(span(ageMs) / shortest.ms) + 1)
      debts = owe(debts, w.ms, math.max(most, owed(state.debts, w.ms)))
    end
  end
  redis.call('DEL', SHARED, OWN)
  for k = 1, math.max(request.replicas, #state.slots) do
    state.slots[k] = { isUnknown = true, renewedAt = now, holdMs = request.holdMs, rightMs = request.rightMs, debts = {} }
  end
  state.epoch, state.debts, state.processes = int(now) .. '.' .. int(state.seq) .. request.process, debts, {}
  state.closedUntil, state.openAt, state.since = now + span(shortest.ms + request.countMs), now, now
  state.seq, state.purses, state.lostAt = math.max(state.seq, request.seen), state.purses or request.purses, now
end

-- [5] A replica has seen more than Redis knows, or a key is gone.
local function noticeLoss()
  local me = state.processes[request.process]
  if (me and me.seq or state.seq) < request.seen then return lose(request.counts, request.countsMs) end
  local isWhole = redis.call('ZCARD', SHARED) == state.shared and redis.call('ZCARD', OWN) == state.own
  if not isWhole then lose(state.counts, 0) end
end

-- Calls of replicas of version 0.2 count in full for a whole window. @return whether such replicas may still send
local function adoptOldBudget()
  local text = redis.call('GET', OLD_STATE)
  if not text then return false end
  local old = cjson.decode(text)
  local time = state.clock + old.offset
  for _, slot in ipairs(old.slots) do
    if slot.untilAt and time <= slot.untilAt + slot.stopAfterMs then return true end
  end
  for _, w in ipairs(windows) do
    state.debts = owe(state.debts, w.ms, redis.call('ZCOUNT', OLD_SENDS, '(' .. int(time - w.ms), '+inf'))
  end
  redis.call('DEL', OLD_STATE, OLD_SENDS)
  return false
end

local function callsOf(k)
  local calls, prefix, flat = {}, int(k) .. ' ', redis.call('ZRANGE', OWN, 0, -1, 'WITHSCORES')
  for i = 1, #flat, 2 do
    if string.sub(flat[i], 1, #prefix) == prefix then
      calls[#calls + 1] = { string.sub(flat[i], #prefix + 1), tonumber(flat[i + 1]) }
    end
  end
  return calls
end

-- [3][4] A slot that was not renewed is free when its holder has certainly stopped, and the holder's calls have left the
-- shortest window. In longer windows, the most that the holder can have spent since its last report counts.
local function lapse(slot)
  if not (slot.holder or slot.isUnknown) or now <= slot.renewedAt + slot.holdMs then return end
  local short = state.purses.windows[1]
  for i, w in ipairs(state.purses.windows) do
    local most = slot.isUnknown and w.own or math.min(w.own, short.own * (math.ceil(slot.rightMs / short.ms) + 2))
    if i > 1 then slot.debts = owe(slot.debts, w.ms, most) end
  end
  slot.holder, slot.isUnknown = nil, nil
end

-- [3] Slots get another size when all are free. Calls beyond the new size count against the shared purse.
local function resize()
  if state.purses and state.purses.name == request.purses.name then return true end
  for _, slot in ipairs(state.slots) do
    if slot.holder or slot.isUnknown then return false end
  end
  local debts, calls = state.debts, {}
  for k = 1, #state.slots do calls[k] = callsOf(k) end
  for _, w in ipairs(windows) do
    local excess = 0
    for k, slot in ipairs(state.slots) do
      local spent = owed(slot.debts, w.ms)
      for _, call in ipairs(calls[k]) do spent = spent + (call[2] > now - span(w.ms) and 1 or 0) end
      excess = excess + math.max(0, spent - (k <= request.replicas and w.own or 0))
    end
    if w.limit - request.replicas * w.own - count(SHARED, w.ms) - owed(state.debts, w.ms) < excess then return false end
    debts = owe(debts, w.ms, excess)
  end
  state.debts, state.purses = debts, request.purses
  return true
end

-- [3][4] @return the slot of this process, and whether its purse is new to it
local function ownSlot(mayTake)
  local mine, isNew
  for k, slot in ipairs(state.slots) do
    lapse(slot)
    if slot.holder == request.process then mine = k end
  end
  local claimed = request.isFull and request.slot and state.slots[request.slot]
  if not mine and claimed and claimed.isUnknown and state.purses.name == request.purses.name then
    mine, claimed.holder, claimed.isUnknown = request.slot, request.process, nil
    for _, debt in ipairs(request.debts) do
      claimed.debts[#claimed.debts + 1] = { ms = debt.ms, count = debt.count, till = now + debt.forMs }
    end
  end
  isNew = mine and mine ~= request.slot
  if not mine and mayTake and now >= state.openAt and resize() then
    for k = request.replicas, 1, -1 do
      state.slots[k] = state.slots[k] or { debts = {} }
      if not (state.slots[k].holder or state.slots[k].isUnknown) then mine, isNew = k, true end
    end
    if mine then state.slots[mine].holder = request.process end
  end
  return mine, isNew
end

local function enterInLedger(id, at, call)
  redis.call('XADD', LEDGER, '*', 'k', 's', 'i', id, 't', int(at), 'r', call.resource, 'c', call.cause, 'q', call.query,
    'l', request.limits)
end

-- [4] Calls of own purses. They belong to the slot that paid for them.
local function report()
  for _, call in ipairs(request.calls) do
    local isNew = redis.call('ZADD', OWN, 'NX', int(now - call.ageMs), int(call.slot) .. ' ' .. call.id) == 1
    if isNew and call.resource then enterInLedger(call.id, now - call.sentMs, call) end
    if isNew and call.hasDay then redis.call('ZADD', request.prefix .. 'day:' .. call.app, int(now - call.ageMs), call.id) end
  end
end

-- A permit counts from the latest possible arrival, and from the real one when that is known.
local function settle(ended)
  local at = now - ended.ageMs
  local day, member = request.prefix .. 'day:' .. ended.app, ended.slot and int(ended.slot) .. ' ' .. ended.id
  for _, place in ipairs({ { member and OWN or SHARED, member or ended.id }, { day, ended.id } }) do
    if ended.status == 'unsent' then redis.call('ZREM', place[1], place[2])
    else redis.call('ZADD', place[1], 'XX', 'LT', int(at), place[2]) end
  end
  redis.call('XADD', LEDGER, '*', 'k', 'e', 'i', ended.id, 's', ended.status, 'd', int(ended.durationMs), 't', int(at))
end

-- How long until `more` permits are free. A call on its way is treated as if it arrived now.
local function freeInMs(key, ms, more)
  local flat = redis.call('ZRANGEBYSCORE', key, '(' .. int(now - span(ms)), '+inf', 'WITHSCORES', 'LIMIT', int(more - 1), 1)
  return flat[2] and math.min(tonumber(flat[2]), now) + span(ms) + 1 - now or request.pollMs
end

-- [1] Grants a permit, or returns the reason of the refusal and the time until a new request makes sense.
local function take(wanted, rooms, closedMs)
  local reason, waitMs = nil, 0
  local function refuse(why, ms) reason, waitMs = reason or why, math.max(waitMs, ms) end
  if closedMs > 0 then refuse('redis-away', closedMs) end
  for i, w in ipairs(windows) do
    local missing = 1 + (wanted.leave[i] or 0) - rooms[i]
    if missing > 0 then refuse(rooms[i] < 1 and 'budget' or 'reserved', freeInMs(SHARED, w.ms, missing)) end
  end
  local day = request.prefix .. 'day:' .. wanted.app
  if wanted.perDay then
    local over = math.max(count(day, DAY), wanted.dayAtLeast) + 1 - wanted.perDay
    if over > 0 then refuse('per-day', freeInMs(day, DAY, over)) end
  end
  if reason and not wanted.ignoresLimits then return { reason = reason, waitMs = math.max(1, math.ceil(waitMs)) } end
  redis.call('ZADD', SHARED, int(now + request.countMs), wanted.id)
  if wanted.perDay then
    redis.call('ZADD', day, int(now + request.countMs), wanted.id)
    redis.call('ZREMRANGEBYSCORE', day, '-inf', int(now - span(DAY)))
    redis.call('PEXPIRE', day, int(span(DAY)))
  end
  enterInLedger(wanted.id, now, wanted)
  for i = 1, #windows do rooms[i] = rooms[i] - 1 end
  return { isGranted = true }
end

-- When the next permits are free, and what waits at other replicas. Predictions and fairness need it.
local function describe()
  local described = { freeIn = {}, waiting = {} }
  for i, w in ipairs(windows) do
    local flat, freeIn = redis.call('ZRANGEBYSCORE', SHARED, '(' .. int(now - span(w.ms)), '+inf', 'WITHSCORES', 'LIMIT', 0, 100), {}
    for n = 2, #flat, 2 do freeIn[#freeIn + 1] = math.ceil(math.min(tonumber(flat[n]), now) + span(w.ms) + 1 - now) end
    described.freeIn[i] = freeIn
  end
  local flat = redis.call('HGETALL', WAITING)
  for i = 1, #flat, 2 do
    local other = cjson.decode(flat[i + 1])
    if other.at < now - 1000 then redis.call('HDEL', WAITING, flat[i])
    elseif flat[i] ~= request.process then described.waiting[#described.waiting + 1] = other.apps end
  end
  return described
end

local function tidy()
  state.keepMs = math.max(state.keepMs, request.keepMs)
  for _, key in ipairs({ SHARED, OWN }) do redis.call('ZREMRANGEBYSCORE', key, '-inf', int(now - state.keepMs)) end
  for name, process in pairs(state.processes) do
    if process.at < now - request.holdMs then state.processes[name] = nil end
  end
  local dropped = redis.call('XTRIM', LEDGER, 'MINID', '~', int(math.max(0, now - request.retentionMs))) + redis.call('XTRIM', LEDGER, 'MAXLEN', '~', int(request.maxRecords * 2))
  local first = dropped > 0 and redis.call('XRANGE', LEDGER, '-', '+', 'COUNT', 1)[1]
  if first then state.since = tonumber(string.match(first[1], '^%d+')) end
end

-- [5][6] The data may have been older than thought when the loss was noticed, because a command that only watches does not
-- know the time. All that follows from the loss begins when the time is known.
local function followTime()
  local late = state.lostAt and now - state.lostAt or 0
  state.lostAt = nil
  if late <= 0 then return end
  state.closedUntil = state.closedUntil + late
  for _, debt in ipairs(state.debts) do debt.till = debt.till + late end
  for _, slot in ipairs(state.slots) do slot.renewedAt = (slot.renewedAt or now) + late end
end

local function work(reply)
  followTime()
  local isOldVersion = adoptOldBudget()
  reply.isOldVersion = isOldVersion
  local isLeaving = request.isLeaving or isOldVersion
  local slot, isNew = ownSlot(not isLeaving)
  report()
  for _, ended in ipairs(request.ended) do settle(ended) end
  if slot and isLeaving then state.slots[slot].holder, slot = nil, nil end
  if slot then
    local mine = state.slots[slot]
    mine.renewedAt, mine.holdMs, mine.rightMs, reply.slot = now, request.holdMs, request.rightMs, slot
    if isNew then reply.inherited = { calls = callsOf(slot), debts = mine.debts } end
  end
  local rooms = {}
  reply.closedMs = math.max(0, state.openAt - now, state.closedUntil - now, isOldVersion and request.pollMs or 0)
  for i, w in ipairs(windows) do rooms[i] = room(w) end
  for i, wanted in ipairs(request.takes) do reply.results[i] = take(wanted, rooms, reply.closedMs) end
  for i, w in ipairs(windows) do
    local spent = count(SHARED, w.ms) + owed(state.debts, w.ms)
    reply.windows[i], reply.counts[int(w.ms)] = { spent, math.max(0, rooms[i]), count(OWN, w.ms) }, spent
  end
  if request.waiting then
    redis.call('HSET', WAITING, request.process, cjson.encode({ at = now, apps = request.waiting }))
  end
  if request.wantsState then reply.state = describe() end
  if request.isTidying then tidy() end
  state.counts = reply.counts
end

local clock = readTime()
local me = state.processes[request.process]
-- A command that arrives after a later one of the same process has no effect.
if me and me.number >= request.number then return cjson.encode({ kind = 'late' }) end
noticeLoss()
local reply = { kind = 'done', results = {}, windows = {}, counts = {}, closedMs = request.pollMs }
if not request.isWatching then work(reply) end
state.seq, state.time = state.seq + 1, now
local ahead = not request.isWatching and request.latest and request.latest - clock or nil
state.processes[request.process] = { seq = state.seq, number = request.number, at = now, clock = clock, ahead = ahead }
state.shared, state.own = redis.call('ZCARD', SHARED), redis.call('ZCARD', OWN)
redis.call('SET', STATE, cjson.encode(state), 'PX', int(state.keepMs + request.holdMs))
for _, key in ipairs({ SHARED, OWN, WAITING }) do redis.call('PEXPIRE', key, int(state.keepMs + request.holdMs + 60000)) end
reply.time, reply.seq, reply.epoch, reply.isWatching = now, state.seq, state.epoch, request.isWatching
return cjson.encode(reply)
