-- The shared purse of one origin, and the slots of the own purses. docs/budget.md explains the purses. The numbers in
-- brackets are the rules at the top of shared-purse.ts.
--
-- KEYS     1 state: MessagePack
--          2 shared: sorted set of the calls of the shared purse; the score is the instant that a call counts from
--          3 own: the same for the own purses; a member is the slot, a blank, and the id of the call
--          4 waiting: hash from process to the calls that wait there
--          5 ledger: a stream
--          6 the state of version 0.2
--          In the same hash slot of a Cluster: PREFIX.day:APP, sorted sets like 2, for apps with a limit for the day
-- ARGV[1]  the request as JSON: see scriptSettings in redis-script.ts. If it is empty, the reply is the state, and nothing changes.
--
-- Instants are milliseconds of the script's own time [6].

local STATE, SHARED, OWN, WAITING, LEDGER, OLD_STATE = unpack(KEYS)
local stored = redis.call('GET', STATE)
local state = stored and cmsgpack.unpack(stored)
if ARGV[1] == '' then return state and cjson.encode(state) end
if redis.call('GET', OLD_STATE) then
  return redis.error_reply('ERR version 0.2 has its budget here. Stop its replicas, wait for the longest window, and delete ' .. OLD_STATE)
end
local request = cjson.decode(ARGV[1])
local DAY, known = 86400000, request.known or { seq = 0, joinedBy = 0 }
-- [6] After an outage of Redis that takes longer, replicas that know a later time have this long to come first.
local RETURN_MS = 1000
-- [5] The holder of a slot that nobody has announced since data were lost.
local UNKNOWN = ''
-- [6] The most that Redis' clock and the machines' clocks may be wrong together while no replica measures the time.
local CLOCK_ERROR_MS = 5000
local windows, shortest, longestMs, mostOwn = request.windows, request.windows[1], DAY, 0
local time = redis.call('TIME')
local clock, now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000), nil

for _, w in ipairs(windows) do
  if w.windowMs < shortest.windowMs then shortest = w end
  longestMs, mostOwn = math.max(longestMs, w.windowMs), math.max(mostOwn, w.own)
end
local function int(number) return string.format('%.0f', number) end
-- [5] How many calls the sets have, and whether the ledger has entries.
local function sizes()
  return table.concat({ redis.call('ZCARD', SHARED), redis.call('ZCARD', OWN), #redis.call('XRANGE', LEDGER, '-', '+', 'COUNT', 1) }, ' ')
end
-- Longer by what the clocks may differ.
local function span(ms) return ms * (1 + request.drift) + state.slackMs end
local function since(key, at) return redis.call('ZCOUNT', key, '(' .. int(at), '+inf') end
local function count(key, ms) return since(key, now - span(ms)) end

-- A debt is a number of calls that count in one window, and of which no instants are known.
local function owed(ms)
  local debt = state.debts[int(ms)]
  return debt and debt.till > now and debt.count or 0
end
local function owe(ms, number)
  state.debts[int(ms)] = { count = number, till = now + span(ms + state.countMs) }
end

local function readState()
  if not state then
    redis.call('DEL', SHARED, OWN)
    state = {
      time = clock, clock = clock, wall = request.wall, seq = 0, workedSeq = 0, epoch = int(clock) .. request.process,
      since = clock, sizes = sizes(), openAt = 0, counts = {}, debts = {}, slots = {}, processes = {}, keepMs = 0
    }
  end
  now = state.time
  -- [6] Replicas may have different timeouts for Redis. The longest timeout of all replicas counts.
  for _, name in ipairs({ 'slackMs', 'countMs' }) do state[name] = math.max(request[name], state[name] or 0) end
  state.keepMs = math.max(state.keepMs, math.ceil(span(longestMs)))
  -- [3] A slot that was not renewed for this long is free. Its holder has stopped, and its calls have left the shortest window.
  request.holdMs = math.ceil(span(request.degradedForMs + shortest.windowMs + state.countMs) + state.slackMs)
  -- [4] The most unreported calls of its holder: those that its last report did not contain, and those after that report.
  request.most = math.min(mostOwn, request.unreported + shortest.own * (math.ceil(request.degradedForMs / shortest.windowMs) + 2))
end

-- [3] Slots may be of another size than this process wants. The larger size counts.
local function isSizeWanted() return state.purses and state.purses.name == request.purses.name end
-- Own purses have no size yet in a window that was just added. There, their calls are counted one by one.
local function ownTotal(purses, ms)
  return purses and purses.own[int(ms)] and purses.replicas * purses.own[int(ms)] or count(OWN, ms)
end
local function sharedLimit(w)
  return w.limit - math.max(ownTotal(request.purses, w.windowMs), ownTotal(state.purses, w.windowMs))
end
local function spent(ms) return count(SHARED, ms) + owed(ms) end
local function room(w) return sharedLimit(w) - spent(w.windowMs) end

-- [5] Data were lost. `counts` are those of a reply `ageMs` ago: by window, the calls that counted, and the highest limit of
-- all processes, because those with other limits go on with what this process knows. `purses` are the sizes of the slots.
-- All processes must join again.
local function lose(counts, ageMs, purses)
  state.purses = purses or request.purses
  for _, w in ipairs(windows) do
    local one = counts[int(w.windowMs)] or { sharedLimit(w), 0 }
    counts[int(w.windowMs)] = { one[1], math.max(one[2], sharedLimit(w)) }
  end
  local most, granted = 0, counts[int(shortest.windowMs)][2] * (math.ceil(span(ageMs) / shortest.windowMs) + 1)
  for name, one in pairs(counts) do
    local ms = tonumber(name)
    one[1] = math.max(one[1] + granted, owed(ms))
    if ms ~= shortest.windowMs then owe(ms, one[1]) end
  end
  for _, size in pairs(state.purses.own) do most = math.max(most, size) end
  for k = 1, math.max(state.purses.replicas, #state.slots) do
    state.slots[k] = { holder = UNKNOWN, renewedAt = now, holdMs = request.holdMs + request.unknownMs, most = most }
  end
  redis.call('DEL', SHARED, OWN)
  state.counts, state.processes, state.epoch, state.hasLost = counts, {}, int(now) .. '.' .. int(state.seq) .. request.process, true
  -- The timeouts of the other replicas are lost, too. `unknownMs` stands for the longest possible ones.
  state.openAt, state.since = now + span(shortest.windowMs + state.countMs) + request.unknownMs, now
  state.seq, state.clock, state.wall = math.max(state.seq, known.seq), clock, request.wall
end

-- [5] A replica has seen more than Redis knows, or a key is gone.
local function noticeLoss()
  local me = state.processes[request.process]
  if (me and me.seq or state.seq) < known.seq then return lose(known.counts, request.knownMs, known.purses) end
  if sizes() ~= state.sizes then lose(state.counts, 0, state.purses) end
end

-- [6] Moves the time as far as the clock of the asking process shows. A new process only watches at first, so that replicas
-- that know a later time come before it works. The same holds for a process whose clock is ahead although others have worked
-- meanwhile, because they did not know its time. @return whether the asking process may work
local function moveTime()
  local me = state.processes[request.process]
  local isMember = me and me.joinedBy == known.joinedBy
  local isAhead = isMember and request.time > now + state.slackMs
  if not isMember or (isAhead and state.workedSeq > me.seq) then
    state.processes[request.process] = { joinedBy = request.number, joinsAt = now + request.joinMs }
    return false
  end
  if me.joinsAt and request.time < me.joinsAt then return false end
  local to = math.max(now, request.time)
  if me.joinsAt then
    -- No replica measured the time before. Redis' clock and the machine's clock agree on what has certainly passed.
    to = math.max(to, now + math.min(clock - state.clock, request.wall - state.wall) - CLOCK_ERROR_MS)
  elseif to > now + RETURN_MS then
    -- Redis was away, and it may have gone back to an older copy. Replicas that know more come first.
    state.openAt = math.max(state.openAt, to + RETURN_MS)
  end
  -- The time follows Redis' clock slowly, because the ledger has it.
  if to < clock then to = math.min(clock, to + (to - now) * request.drift) end
  now = math.floor(to)
  me.joinsAt, state.clock, state.wall, state.workedSeq = nil, clock, request.wall, state.seq + 1
  return true
end

-- [3] Slots get another size when all are free. Calls of the old ones count against the shared purse.
local function resize()
  if isSizeWanted() then return true end
  for _, slot in ipairs(state.slots) do if slot.holder then return false end end
  for _, w in ipairs(windows) do
    if spent(w.windowMs) + count(OWN, w.windowMs) > w.limit - ownTotal(request.purses, w.windowMs) then return false end
  end
  for _, w in ipairs(windows) do owe(w.windowMs, owed(w.windowMs) + count(OWN, w.windowMs)) end
  redis.call('DEL', OWN)
  state.slots, state.purses = {}, request.purses
  return true
end

-- [4] For the next holder of a slot, the most that was not reported or was lost counts: from `at`, because no instants are known.
local function spendMost(k, most, at)
  for i = 1, most do redis.call('ZADD', OWN, int(at), int(k) .. ' ' .. int(state.seq) .. '.' .. i) end
end

-- [3][4] @return the slot of this process, and whether its purse is new to it
local function ownSlot()
  -- A process that leaves, or wants another size, has stopped using its purse, and reports all its calls.
  local isGivenBack, mine = request.isLeaving or not isSizeWanted(), nil
  for k, slot in ipairs(state.slots) do
    if slot.holder == UNKNOWN and k == request.slot and isSizeWanted() then
      -- [5] The holder goes on, and knows its calls. The next holder does not.
      slot.holder, slot.lost = request.process, { most = slot.most, at = now + state.countMs }
    end
    local lost, isLapsed = slot.lost or { most = 0 }, slot.holder and now > slot.renewedAt + slot.holdMs
    if isLapsed then lost = { most = math.max(slot.most, lost.most), at = now - span(shortest.windowMs) } end
    if isLapsed or (slot.holder == request.process and isGivenBack) then
      spendMost(k, lost.most, lost.at)
      slot.holder, slot.lost = nil, nil
    end
    if slot.holder == request.process then mine = k end
  end
  if mine or request.isLeaving or now < state.openAt or not resize() then return mine, mine ~= request.slot end
  for k = 1, request.purses.replicas do
    state.slots[k] = state.slots[k] or {}
    if not state.slots[k].holder then
      state.slots[k].holder = request.process
      return k, true
    end
  end
end

local function dayOf(app) return request.prefix .. 'day:' .. app end

local function enterDay(call, at)
  if not call.perDay then return end
  local day = dayOf(call.app)
  redis.call('ZADD', day, int(at), call.id)
  redis.call('ZREMRANGEBYSCORE', day, '-inf', int(now - span(DAY)))
  redis.call('PEXPIRE', day, int(span(DAY)))
end

-- Enters a call once: in the set of its purse, in the ledger, and in the day of its app. It counts from `at`.
local function enter(set, member, call, at, sentAt)
  if redis.call('ZADD', set, 'NX', int(at), member) == 0 then return end
  redis.call('XADD', LEDGER, '*', 'k', 's', 'i', call.id, 't', int(sentAt), 'r', call.resource, 'c', call.cause, 'q', call.query,
    'l', request.limits)
  enterDay(call, at)
end

-- A permit counts from the latest possible arrival, and from the real one when that is known.
local function settle(ended, member, at)
  for _, place in ipairs({ { member and OWN or SHARED, member or ended.id }, { dayOf(ended.app), ended.id } }) do
    if ended.status == 'unsent' then redis.call('ZREM', place[1], place[2])
    else redis.call('ZADD', place[1], 'XX', 'LT', int(at), place[2]) end
  end
  redis.call('XADD', LEDGER, '*', 'k', 'e', 'i', ended.id, 's', ended.status, 'd', int(ended.durationMs), 't', int(at))
end

-- [1] Grants a permit, or returns the reason of the refusal.
local function take(wanted, rooms, isClosed)
  local reason = isClosed and not wanted.isOwn and 'redis-away'
  for i = 1, #windows do
    if rooms[i] < 1 and not wanted.isOwn then reason = reason or 'budget' end
  end
  if wanted.perDay and count(dayOf(wanted.app), DAY) >= wanted.perDay then reason = reason or 'per-day' end
  if reason and not wanted.ignoresLimits then return reason end
  -- [2] The own purse of the replica pays.
  if wanted.isOwn then enterDay(wanted, now + state.countMs) return 'granted' end
  enter(SHARED, wanted.id, wanted, now + state.countMs, now)
  for i = 1, #windows do rooms[i] = rooms[i] - 1 end
  return 'granted'
end

-- Tells what waits at other replicas, for predictions and fairness, and tidies up.
local function tick(reply)
  local flat = redis.call('HGETALL', WAITING)
  reply.waiting = {}
  for i = 1, #flat, 2 do
    local other = cjson.decode(flat[i + 1])
    if other.at < now - 1000 then redis.call('HDEL', WAITING, flat[i])
    elseif flat[i] ~= request.process then reply.waiting[#reply.waiting + 1] = other.apps end
  end
  for _, key in ipairs({ SHARED, OWN }) do redis.call('ZREMRANGEBYSCORE', key, '-inf', int(now - state.keepMs)) end
  for _, key in ipairs({ SHARED, OWN, WAITING }) do redis.call('PEXPIRE', key, int(state.keepMs + request.holdMs + 60000)) end
  for name, process in pairs(state.processes) do
    if process.at < now - request.holdMs then state.processes[name] = nil end
  end
  local dropped = redis.call('XTRIM', LEDGER, 'MINID', '~', int(math.max(0, now - request.retentionMs))) + redis.call('XTRIM', LEDGER, 'MAXLEN', '~', int(request.maxRecords * 2))
  local first = dropped > 0 and redis.call('XRANGE', LEDGER, '-', '+', 'COUNT', 1)[1]
  -- Data may have been lost later.
  if first then state.since = math.max(state.since, tonumber(string.match(first[1], '^%d+'))) end
end

local function work(reply)
  -- [4] A call of an own purse belongs to the slot that paid for it.
  for _, one in ipairs(request.reports) do
    local at, member = now - one.ageMs, one.slot and int(one.slot) .. ' ' .. one.id
    if one.status then settle(one, member, at) else enter(OWN, member, one, at, at - one.arrivalMs) end
  end
  local slot, isNew = ownSlot()
  if slot then
    local mine = state.slots[slot]
    mine.renewedAt, mine.holdMs, mine.most, reply.slot = now, request.holdMs, request.most, slot
    if isNew then reply.inherited = redis.call('ZRANGE', OWN, 0, -1, 'WITHSCORES') end
  end
  local rooms = {}
  reply.closedMs = math.max(0, state.openAt - now)
  for i, w in ipairs(windows) do rooms[i] = room(w) end
  for i, wanted in ipairs(request.takes) do reply.results[i] = take(wanted, rooms, reply.closedMs > 0) end
  for i, w in ipairs(windows) do
    local name = int(w.windowMs)
    -- An own purse counts without the slack. It may pay again while its earlier call still counts for the script.
    local own = math.min(since(OWN, now - w.windowMs), ownTotal(state.purses, w.windowMs))
    reply.windows[name] = { sharedLimit(w) - rooms[i], math.max(0, rooms[i]), own }
    state.counts[name] = { 0, math.max(sharedLimit(w), state.counts[name] and state.counts[name][2] or 0) }
  end
  for name, one in pairs(state.counts) do one[1] = spent(tonumber(name)) end
  redis.call('HSET', WAITING, request.process, cjson.encode({ at = now, apps = request.waiting }))
  if request.isTick then tick(reply) end
end

readState()
local before = state.processes[request.process]
-- A command that arrives after a later one of the same process has no effect.
if before and before.number >= request.number then return end
noticeLoss()
local isWorking = moveTime()
local me = state.processes[request.process]
local reply = { results = {}, windows = {}, closedMs = request.joinMs }
if me.joinsAt and me.joinedBy == known.joinedBy then reply.closedMs = me.joinsAt - request.time end
if isWorking then work(reply) end
state.seq, state.time, state.sizes = state.seq + 1, now, sizes()
me.seq, me.number, me.at = state.seq, request.number, now
redis.call('SET', STATE, cmsgpack.pack(state), 'PX', int(state.keepMs + request.holdMs))
reply.time, reply.epoch, reply.isWatching, reply.slackMs = now, state.epoch, not isWorking, state.slackMs
reply.known = { seq = state.seq, counts = state.counts, purses = state.purses, joinedBy = me.joinedBy }
return cjson.encode(reply)
