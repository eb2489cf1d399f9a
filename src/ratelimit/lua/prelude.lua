-- What the scripts of the budget have in common; it is put in front of each of them.
--
-- The budget of one origin, shared by all replicas. Every instant is Redis' own, in milliseconds, and never
-- goes back. A send's place is kept under the latest instant at which it can have reached the upstream:
-- a lease ahead when it is allowed, and the instant of its arrival once that is known. src/ratelimit/arbiter.ts
-- has the same rules for a process that keeps its budget alone; see there for what they mean.
--
-- KEYS[1]  state, a hash
--            gen, run         the generation of what is kept here, and the run of the server it began with
--            begun            when this generation began
--            seq              how many sends were entered; every replica says which it knows of
--            now              the latest instant seen
--            since            from when on the ledger is complete
--            tag, refused     the tag of the app served last; connections refused in a row
--            tag:APP, asked:APP, borrowed:APP
--            circuit:SCOPE    openUntil|coolOffMs|probeUntil|probe|cause
-- KEYS[2]  sends, a sorted set of ids by instant; an id ends with @ and its app
-- KEYS[3]  replicas, a hash: heardAt|seq known|wakes at|rank|tag|lost|who waits there, app:rank:length,…
-- KEYS[4]  ledger, a stream
-- then, where apps are concerned, two sorted sets for each: the sends of its own share, and all of them
-- ARGV[1]  the request, as JSON

local request = cjson.decode(ARGV[1])
local state, sends, replicas, ledger = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local DAY = 86400000

local function int(number) return string.format('%.0f', number) end

local function field(name) return tonumber(redis.call('HGET', state, name) or nil) end

-- The time; a test brings its own.
local function readClock()
  local now = request.now
  if not now then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  end
  local latest = field('now')
  if latest and latest > now then return latest end
  redis.call('HSET', state, 'now', int(now))
  return now
end

local now = readClock()

-- The run of this server. Where one may not ask, only a missing generation tells of a restart.
local function runOfServer()
  if request.run then return request.run end
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return '' end
  return string.match(info, 'run_id:(%w+)') or ''
end

-- Whether what is kept here is what the replica knows: the same generation, on the same run of the server.
-- After a restart anything may be missing, so every replica has to bring what it knows first (join.lua).
local function isJoined()
  local gen, run = unpack(redis.call('HMGET', state, 'gen', 'run'))
  return gen and gen == request.gen and run == runOfServer()
end

local function split(text)
  local parts = {}
  for part in string.gmatch(text .. '|', '([^|]*)|') do parts[#parts + 1] = part end
  return parts
end

-- Notes that a replica was heard, which sends it knows of, that it waits for its turn, if it does, and who waits there.
-- What is not said of those is as it was said last.
local function hear(name, known, wait)
  wait = wait or { at = 0, rank = 0, tag = 0 }
  local queued = request.queued or split(redis.call('HGET', replicas, name) or '')[7] or ''
  redis.call('HSET', replicas, name,
    int(now) .. '|' .. int(known) .. '|' .. int(wait.at) .. '|' .. int(wait.rank) .. '|' .. string.format('%.17g', wait.tag) ..
    '||' .. queued)
end

-- The replicas: those heard of lately, the oldest news among the others, and those that have gone silent.
-- A silent one may be cut off and go on with its share. So that is held back for it: until it comes back,
-- says that it stops, or has had to stop by itself, and what it sent last counts in no window any more. Of so
-- many replicas as there can be, those that are not heard of are the silent ones: one that was replaced is not
-- waited for, unless it was lost in a restart of this server, in which it may have been sending by itself.
-- Where the settings do not say how many there are, what was seen has to do, and for a short while only.
-- When somebody brings what it sent while it was cut off, others may know of less than they are allowed to,
-- and be cut off themselves without having gone silent yet: to a replica that is cut off next, they are apart.
local function readReplicas()
  local all = redis.call('HGETALL', replicas)
  local live, silent, oldest, queued = {}, {}, nil, {}
  local liveCount, justSilent, behind = 0, 0, 0
  local seq = field('seq') or 0
  for i = 1, #all, 2 do
    local parts = split(all[i + 1])
    local heardAt, known = tonumber(parts[1]), tonumber(parts[2])
    if heardAt >= now - request.silentMs or all[i] == request.replica then
      live[all[i]] = { at = tonumber(parts[3]), rank = tonumber(parts[4]), tag = tonumber(parts[5]) }
      liveCount = liveCount + 1
      if all[i] ~= request.replica then
        if not oldest or known < oldest then oldest = known end
        if seq - known > request.slack then behind = behind + 1 end
        if parts[7] and parts[7] ~= '' then queued[#queued + 1] = parts[7] end
      end
    else
      silent[#silent + 1] = { name = all[i], heardAt = heardAt, isLost = parts[6] == '1' }
      if heardAt >= now - request.rejoinMs then justSilent = justSilent + 1 end
    end
  end
  local longest = 0
  for _, window in ipairs(request.windows) do longest = math.max(longest, window.ms) end
  for _, replica in ipairs(silent) do
    local isReplaced = liveCount >= request.replicas and replica.heardAt < now - request.rejoinMs
    local reckonedMs = request.absentForMs + longest
    if isReplaced then reckonedMs = replica.isLost and request.leaseMs + longest or 0 end
    if now > replica.heardAt + reckonedMs then redis.call('HDEL', replicas, replica.name) end
  end

  -- For how many something is held back in a window.
  local function heldIn(ms)
    local absent, lost = 0, 0
    for _, replica in ipairs(silent) do
      if now <= replica.heardAt + request.absentForMs + ms then absent = absent + 1 end
      if replica.isLost and now <= replica.heardAt + request.leaseMs + ms then lost = lost + 1 end
    end
    -- Who began the generation may not have known the others: they have so long to come.
    if now < (field('begun') or 0) + request.rejoinMs then absent = request.replicas end
    return math.max(
      math.min(absent, math.max(0, request.replicas - liveCount)),
      math.min(justSilent, math.max(0, request.mostSeen - liveCount)),
      lost)
  end

  local apart = {}
  for i, window in ipairs(request.windows) do apart[i] = heldIn(window.ms) + behind end
  return { live = live, liveCount = liveCount, silentCount = #silent, apart = apart, heldIn = heldIn, oldest = oldest, queued = queued }
end

local function tell(message)
  redis.call('PUBLISH', request.channel, cjson.encode(message))
end

local function readCircuit(scope)
  local text = redis.call('HGET', state, 'circuit:' .. scope)
  if not text then return nil end
  local parts = split(text)
  return {
    openUntil = tonumber(parts[1]), coolOffMs = tonumber(parts[2]), probeUntil = tonumber(parts[3]),
    probe = parts[4], cause = parts[5]
  }
end

local function writeCircuit(scope, circuit)
  redis.call('HSET', state, 'circuit:' .. scope,
    int(circuit.openUntil) .. '|' .. int(circuit.coolOffMs) .. '|' .. int(circuit.probeUntil) .. '|' ..
    circuit.probe .. '|' .. circuit.cause)
end

-- The circuits, with what is left of them in milliseconds: nobody else's clock is this one.
local function readCircuits()
  local circuits = {}
  for _, scope in ipairs({ 'origin', 'listings', 'sold', 'areas', 'images' }) do
    local circuit = readCircuit(scope)
    if circuit then
      circuits[#circuits + 1] = {
        scope = scope, cause = circuit.cause, coolOffMs = circuit.coolOffMs,
        openForMs = circuit.openUntil - now, probe = circuit.probe, probeForMs = circuit.probeUntil - now
      }
    end
  end
  return circuits
end

-- The apps that have ever asked: by name, when each asked last, and when it last took more than its share.
local function readApps()
  local fields = redis.call('HGETALL', state)
  local apps = {}
  for i = 1, #fields, 2 do
    local what, app = string.match(fields[i], '^(%l+):(.*)$')
    if what == 'asked' or what == 'borrowed' then
      apps[app] = apps[app] or {}
      apps[app][what] = tonumber(fields[i + 1])
    end
  end
  return apps
end

-- The same for a replica, in milliseconds ago: nobody else's clock is this one.
local function describeApps()
  local described = {}
  for app, at in pairs(readApps()) do
    described[#described + 1] = {
      app = app, askedMs = now - at.asked, borrowedMs = at.borrowed and now - at.borrowed
    }
  end
  return described
end

local function horizon() return now - math.max(DAY, request.horizonMs) end

local function reply(answer)
  answer.now = now
  return cjson.encode(answer)
end
