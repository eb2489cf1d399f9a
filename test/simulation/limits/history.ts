/**
 * One history: replicas share limits, in virtual time, first with faults and then without. Its seed decides everything in
 * it. The script runs in a real Redis, and the replicas are the real limiter.
 */
import { pursesOf } from "../../../src/ratelimit/limits/purse-sizes.ts";
import { mostWithin } from "../../support/arrivals.ts";
import { createRandom } from "../../support/random.ts";
import { drawPlan, type Fault, type Plan } from "./plan.ts";
import type { RedisStage } from "../../support/redis-stage.ts";
import { createWorld, note, type Replica, start, type World } from "./world.ts";

export type Outcome = Awaited<ReturnType<typeof playHistory>>;

const STEP_MS = 100;

/** @param lua the script without one of its rules */
export async function playHistory(
  stage: RedisStage,
  seed: number,
  { lua, change = (plan) => plan }: { lua?: string; change?: (plan: Plan) => Plan } = {},
) {
  const random = createRandom(seed);
  const plan = change(drawPlan(random));
  const world = createWorld(stage, plan, random, lua);
  const { clock, arrivals, problems, server } = world;
  for (let place = 0; place < plan.running; place++) start(world, place);
  await clock.advance(plan.quietMs);
  await faultyTime(world);
  heal(world);
  const longestMs = Math.max(...world.config.windows.map(({ windowMs }) => windowMs));
  // Until a purge of lost data is over, and lapsed slots are free.
  await clock.advance(plan.isMeasured ? 2 * plan.degradedForMs + 2 * longestMs : longestMs);
  const from = clock.monotonic();
  if (plan.isMeasured) {
    await clock.advance(2 * longestMs);
    checkUse(world, from);
  }
  for (const { limit, windowMs } of limitsToKeep(world)) {
    const most = mostWithin(arrivals, windowMs);
    if (most > limit) problems.push(`${most} of ${limit} within ${windowMs} ms`);
  }
  for (const replica of world.replicas) replica.isAlive = false;
  await server.data.settled();
  await server.data.remove();
  return { seed, plan, problems, log: world.log };
}

/** After the faults, everyone gets answers, and the busy replicas use what they may. */
function checkUse({ replicas, plan, config, slots, arrivals, clock, problems }: World, from: number): void {
  const isAsking = ({ place }: Replica): boolean =>
    (plan.dispatchers[place % plan.dispatchers.length] ?? 0) > 0;
  for (const replica of replicas)
    if (replica.isAlive && isAsking(replica) && replica.lastAnswerAt < from)
      problems.push(`${replica.name} got no answer`);
  // Replicas with other settings get no slot.
  const isMixed = replicas.some((replica) => replica.isAlive && replica.slots !== slots);
  if (plan.unsettled === 1 || isMixed) return;
  const to = clock.monotonic();
  const running = replicas.filter(({ isAlive }) => isAlive);
  const busy = running.filter(isAsking).length;
  // Nobody spends these own purses. If more replicas run than there are slots, idle ones may hold the slots (seed 464).
  const unspent = Math.max(slots - busy, Math.min(slots, running.length - busy));
  const used = pursesOf(config.windows, { replicas: slots, degradedReserve: plan.reserve }).map(
    ({ limit, windowMs: ms, own }) => {
      const counted = arrivals.map((at) => Math.max(0, Math.min(to, at + ms) - Math.max(from, at)));
      const mean = counted.reduce((sum, part) => sum + part, 0) / (to - from);
      // The script counts a call for as long as a command and the clocks may be wrong.
      const counts = ms + plan.arrivalMs + 4 * plan.timeoutMs + 100;
      return (mean / (limit - unspent * own)) * (counts / ms);
    },
  );
  // Windows of a few seconds are not used completely: commands and calls take a part of them.
  if (Math.max(...used) < 0.85) problems.push(`only ${Math.round(Math.max(...used) * 100)} % used`);
}

/** The limits that must hold all the time. While the limits change, the higher ones must hold. */
function limitsToKeep({ plan }: World): Plan["windows"] {
  if (!plan.faults.includes("limits")) return plan.windows;
  return plan.windows.map((one, index) => {
    return { ...one, limit: Math.max(one.limit, plan.laterWindows[index]?.limit ?? 0) };
  });
}

/** Causes faults for a while. */
async function faultyTime(world: World): Promise<void> {
  const { plan, random, clock, server } = world;
  const until = clock.monotonic() + plan.faultyMs;
  let next = clock.monotonic();
  while (clock.monotonic() < until) {
    if (random.chance(0.1) && server.isUp) server.data.snapshot();
    if (clock.monotonic() >= next && plan.faults.length > 0) {
      cause(world, random.pick(plan.faults));
      next = clock.monotonic() + random.between(STEP_MS, 2 * plan.betweenFaultsMs);
    }
    await clock.advance(STEP_MS);
  }
}

const alive = ({ replicas }: World): Replica[] =>
  replicas.filter(({ isAlive, isStopping }) => isAlive && !isStopping);

type Later = (mostMs: number, run: () => void) => void;

function cause(world: World, fault: Fault): void {
  const { random, clock } = world;
  const victims = alive(world).filter(({ isWitness }) => !isWitness);
  const victim = victims.length > 0 ? random.pick(victims) : undefined;
  const later: Later = (mostMs, run) => void clock.after(random.between(50, mostMs), run);
  note(world, `fault: ${fault} ${victim?.name ?? ""}`);
  const [hit, change] = [HITS[fault], CHANGES[fault]];
  if (hit !== undefined) return victim && hit(world, victim, later);
  if (change !== undefined) return change(world, later);
  if (!world.replicas.some(({ isWitness, isAlive }) => isWitness && isAlive)) hitRedis(world, fault, later);
}

/** Faults after which all data are known. */
const CHANGES: Partial<Record<Fault, (world: World, later: Later) => void>> = {
  surge(world) {
    if (alive(world).length < 5) start(world, world.random.between(0, 2));
  },
  "redis-slow"({ server, random }, later) {
    server.slowMs = random.pick([50, 150, 400]);
    later(3_000, () => void (server.slowMs = 0));
  },
  "clock-step"({ server, random }) {
    server.skewMs += random.between(100, 5_000) * (random.chance(0.7) ? 1 : -1);
  },
  limits(world) {
    const { random, plan } = world;
    world.config = { ...world.config, windows: random.pick([plan.windows, plan.laterWindows]) };
    for (const replica of alive(world)) if (random.chance(0.7)) replica.limiter.configure(world.config);
  },
  replicas(world) {
    world.slots = world.random.pick([world.plan.slots, world.plan.laterSlots]);
  },
};

/** The faults of one replica. */
const HITS: Partial<Record<Fault, (world: World, victim: Replica, later: Later) => void>> = {
  partition({ random }, victim, later) {
    victim.isPartitioned = true;
    later(random.pick([2_000, 20_000]), () => void (victim.isPartitioned = false));
  },
  freeze({ random, clock }, victim) {
    victim.frozenUntil = clock.monotonic() + random.between(50, random.pick([400, 4_000, 15_000]));
  },
  kill(world, victim, later) {
    victim.isAlive = false;
    later(5_000, () => replace(world, victim));
  },
  stop(world, victim, later) {
    if (world.random.chance(0.5)) start(world, victim.place);
    victim.isStopping = true;
    later(300, () => void stop(victim).then(() => replace(world, victim)));
  },
};

async function stop(replica: Replica): Promise<void> {
  await replica.limiter.close();
  replica.isAlive = false;
}

function replace(world: World, { place }: Replica): void {
  if (!world.isHealed && alive(world).length < world.plan.running) start(world, place);
}

function hitRedis(world: World, fault: Fault, later: Later): void {
  const { server, random, clock } = world;
  if (!server.isUp || server.frozenUntil > clock.monotonic()) return;
  if (fault === "redis-frozen") {
    server.frozenUntil = clock.monotonic() + random.between(50, 6_000);
    return;
  }
  if (fault === "redis-down") {
    server.isUp = false;
    return later(12_000, () => void (server.isUp = true));
  }
  // Replicas that know the data must survive: one of them, or after a failover all of them.
  const knowing = alive(world).filter(
    ({ limiter, isPartitioned, frozenUntil }) =>
      !isPartitioned && frozenUntil <= clock.monotonic() && limiter.state().mode === "shared",
  );
  if (knowing.length === 0 || (fault === "failover" && knowing.length < alive(world).length)) return;
  for (const witness of fault === "failover" ? knowing : [random.pick(knowing)]) witness.isWitness = true;
  loseData(world, fault);
  // A process that starts at this moment does not know the data.
  if (random.chance(0.3) && alive(world).length < 5) start(world, random.between(0, 2));
}

function loseData({ server, random, clock }: World, fault: Fault): void {
  server.slowMs = 0;
  if (fault === "empty") server.data.empty();
  if (fault === "evict") server.data.evict(random.between(0, 2));
  // The youngest snapshots are not older than the last command of an idle replica.
  const youngest = Math.min(server.data.snapshots(), 3);
  if (fault === "roll-back" && youngest < server.data.snapshots())
    server.data.rollBack(random.between(youngest, server.data.snapshots() - 1));
  if (fault === "failover") {
    server.data.snapshot();
    clock.after(random.between(0, 400), () => {
      server.isUp = false;
      server.data.rollBack(0);
      clock.after(random.between(1_200, 3_000), () => void (server.isUp = true));
    });
  }
}

function heal(world: World): void {
  const { server, replicas, plan } = world;
  note(world, "no more faults");
  world.isHealed = true;
  Object.assign(server, { isUp: true, slowMs: 0, frozenUntil: 0 });
  for (const replica of replicas) Object.assign(replica, { isPartitioned: false, frozenUntil: 0 });
  const running = alive(world);
  for (const replica of running.slice(plan.running)) {
    replica.isStopping = true;
    void stop(replica);
  }
  for (let place = 0; place < plan.running; place++)
    if (!running.slice(0, plan.running).some((one) => one.place === place)) start(world, place);
  for (const replica of alive(world)) replica.limiter.configure(world.config);
}
