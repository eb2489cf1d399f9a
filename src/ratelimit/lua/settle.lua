-- Sends have ended: their places count from when they had arrived, or are free again where nothing was
-- sent; the ledger is completed; what the upstream said of its state turns the circuits.
--
-- request  ends   id, app's keys, resource, sinceArrivalMs, durationMs, status, isUnsent, isAnswered, slowDown
--          maxCoolOffMs, retentionMs, maxRecords
-- Answers  settled, with the circuits; lost: join first

if not isJoined() then return reply({ kind = 'lost' }) end

local REFUSED_IN_A_ROW = 3
local FIRST_COOL_OFF = 1000
local SCOPES = { ['too-many-requests'] = 'origin', unreachable = 'origin' }
local haveTurned = false

local function open(scope, circuit, slowDown)
  local again = circuit and circuit.coolOffMs * 2 or FIRST_COOL_OFF
  local coolOff = math.min(math.max(slowDown.forMs or again, FIRST_COOL_OFF), request.maxCoolOffMs)
  writeCircuit(scope, {
    openUntil = math.max(circuit and circuit.openUntil or 0, now + coolOff), coolOffMs = coolOff,
    probeUntil = 0, probe = '', cause = slowDown.cause
  })
  haveTurned = true
end

local function turnProbe(scope, ended)
  local circuit = readCircuit(scope)
  if not circuit or circuit.probe ~= ended.id then return end
  haveTurned = true
  if ended.isUnsent then
    circuit.probe, circuit.probeUntil = '', 0
    writeCircuit(scope, circuit)
  elseif ended.isAnswered then
    redis.call('HDEL', state, 'circuit:' .. scope)
  else
    open(scope, circuit, { cause = ended.slowDown and ended.slowDown.cause or circuit.cause,
      forMs = ended.slowDown and ended.slowDown.forMs })
  end
end

local function turnCircuits(ended)
  turnProbe('origin', ended)
  turnProbe(ended.resource, ended)
  if ended.isUnsent then return end
  local slowDown = ended.slowDown
  local isRefused = slowDown and slowDown.cause == 'unreachable'
  if isRefused then redis.call('HINCRBY', state, 'refused', 1) else redis.call('HDEL', state, 'refused') end
  if not slowDown or (isRefused and field('refused') < REFUSED_IN_A_ROW) then return end
  local scope = SCOPES[slowDown.cause] or ended.resource
  local circuit = readCircuit(scope)
  -- What was sent before it opened says nothing new.
  if circuit and now < circuit.openUntil and not slowDown.forMs then return end
  open(scope, circuit, slowDown)
end

for _, ended in ipairs(request.ends) do
  local sets = { sends, KEYS[3 + ended.keys * 2], KEYS[4 + ended.keys * 2] }
  local arrived = now - ended.sinceArrivalMs
  local isKnown = redis.call('ZSCORE', sends, ended.id)
  for _, set in ipairs(sets) do
    if ended.isUnsent then
      redis.call('ZREM', set, ended.id)
    else
      redis.call('ZADD', set, 'XX', int(arrived), ended.id)
    end
  end
  -- A place may be given back that was never given: the replica did not hear the answer.
  if isKnown then redis.call('XADD', ledger, '*', 'k', 'e', 'i', ended.id, 's', ended.status, 'd', int(ended.durationMs), 't', int(arrived)) end
  turnCircuits(ended)
  tell({ kind = 'settled', id = ended.id, ageMs = ended.sinceArrivalMs, isUnsent = ended.isUnsent })
end
if haveTurned then tell({ kind = 'circuits', circuits = readCircuits() }) end

-- The ledger is bounded in time and in length; from where on it is complete is told to those who read it.
if (field('seq') or 0) % 64 == 0 then
  local dropped = redis.call('XTRIM', ledger, 'MINID', '~', int(now - request.retentionMs))
    + redis.call('XTRIM', ledger, 'MAXLEN', '~', int(request.maxRecords * 2))
  local first = dropped > 0 and redis.call('XRANGE', ledger, '-', '+', 'COUNT', 1)[1]
  if first then redis.call('HSET', state, 'since', string.match(first[1], '^%d+')) end
end
return reply({ kind = 'settled', circuits = readCircuits() })
