/**
 * One history: replicas share limits, in virtual time, first with faults and then without. Its seed decides everything in
 * it. Redis runs the real script, and the replicas are the real limiter.
 */
import { escrowWindows } from "../../../src/ratelimit/escrow.ts";
import { mostWithin } from "../../support/arrivals.ts";
import { createRandom } from "../../support/random.ts";
import { drawPlan, type Fault, type Plan } from "./plan.ts";
import {
  createWorld,
  DEGRADED_RESERVE,
  note,
  type Replica,
  type ScriptCall,
  start,
  type World,
} from "./world.ts";

export interface Outcome {
  readonly seed: number;
  readonly plan: Plan;
  readonly problems: readonly string[];
  readonly log: readonly string[];
  /** The part of the limits that was used after the faults. */
  readonly used: number;
}

const STEP_MS = 100;

export interface HistoryOptions {
  /** The script without one of its rules. */
  readonly lua?: string | undefined;
  readonly observe?: (call: ScriptCall) => void;
  readonly change?: ((plan: Plan) => Plan) | undefined;
}

export async function playHistory(
  seed: number,
  { lua, observe, change = (plan) => plan }: HistoryOptions = {},
): Promise<Outcome> {
  const random = createRandom(seed);
  const plan = change(drawPlan(random));
  const world = createWorld(plan, random, createRandom(~seed), lua);
  world.observe = observe;
  const { clock, arrivals, problems } = world;
  for (let place = 0; place < plan.running; place++) start(world, place);
  await clock.advance(random.between(500, 2_000));
  await faultyTime(world);
  heal(world);
  const longestMs = Math.max(...world.config.windows.map(({ windowMs }) => windowMs));
  const isShort = plan.windows.some(({ windowMs }) => windowMs <= plan.degradedForMs);
  await clock.advance(plan.degradedForMs + longestMs);
  // Until lapsed slots are free, and guesses have left the windows.
  if (plan.isMeasured) await clock.advance((isShort ? 0 : longestMs) + 3_000);
  const from = clock.monotonic();
  const shortestMs = Math.min(...plan.windows.map(({ windowMs }) => windowMs));
  if (plan.isMeasured) await clock.advance(longestMs * Math.ceil((4 * shortestMs) / longestMs));
  arrivals.sort((a, b) => a.at - b.at);
  const used = plan.isMeasured ? usedFrom(world, from, clock.monotonic()) : { ofLimit: 1, ofUsable: 1 };
  for (const { limit, windowMs } of limitsToKeep(world)) {
    const most = mostWithin(
      arrivals.map(({ at }) => at),
      windowMs,
    );
    if (most <= limit) continue;
    noteOverrun(world, limit, windowMs);
    problems.push(`${most} of ${limit} within ${windowMs} ms`);
  }
  // A free permit is requested again after some 100 ms: in windows of a second, that is a tenth of the limit.
  const least = plan.windows.some(({ limit }) => limit < 20) ? 0.8 : 0.9;
  if (used.ofUsable < least && plan.unsettled < 1)
    problems.push(`only ${Math.round(used.ofUsable * 100)} % of the usable permits used`);
  stopAll(world, from - longestMs);
  return { seed, plan, problems, log: world.log, used: used.ofLimit };
}

/** Ends all replicas. A replica that requests permits and has got no reply since an instant is a problem. */
function stopAll({ replicas, plan, problems }: World, since: number): void {
  for (const replica of replicas) {
    const isAsking = (plan.dispatchers[replica.place % plan.dispatchers.length] ?? 0) > 0;
    if (replica.isAlive && isAsking && replica.lastReplyAt < since)
      problems.push(`${replica.name} got no reply`);
    replica.isAlive = false;
  }
}

/** Notes the calls of the first window that exceeds its limit. */
function noteOverrun(world: World, limit: number, windowMs: number): void {
  const { arrivals } = world;
  const end = arrivals.findIndex(({ at }, index) => {
    const first = arrivals[index - limit];
    return first !== undefined && at - first.at < windowMs;
  });
  const within = arrivals.slice(end - limit, end + 1);
  note(
    world,
    `overrun: ${within.map(({ at, id }) => `${at - 1_000_000}:${id.replace(".api.", ".").replace("@app", "")}`).join(" ")}`,
  );
}

/** The limits that must hold all the time. While the limits change, the higher ones must hold. */
function limitsToKeep({ plan }: World): Plan["windows"] {
  if (!plan.faults.includes("limits")) return plan.windows;
  return plan.windows.map((one, index) => ({
    ...one,
    limit: Math.max(one.limit, plan.laterWindows[index]?.limit ?? 0),
  }));
}

/** How full the fullest window was, on average over all instants: of the limit, and of what the busy replicas can use. */
function usedFrom(
  { plan, config, slots, arrivals }: World,
  from: number,
  to: number,
): { readonly ofLimit: number; readonly ofUsable: number } {
  const settings = { ...plan, replicas: slots, degradedReserve: DEGRADED_RESERVE };
  const windows = escrowWindows(config.windows, settings).map(({ limit, ms, escrow }) => {
    const counted = arrivals.map(({ at }) => Math.max(0, Math.min(to, at + ms) - Math.max(from, at)));
    const mean = counted.reduce((sum, part) => sum + part, 0) / (to - from);
    // Idle replicas keep their escrow.
    return { ofLimit: mean / limit, ofUsable: mean / (limit - (plan.dispatchers.includes(0) ? escrow : 0)) };
  });
  return {
    ofLimit: Math.max(...windows.map(({ ofLimit }) => ofLimit)),
    ofUsable: Math.max(...windows.map(({ ofUsable }) => ofUsable)),
  };
}

/** Causes faults for a while. */
async function faultyTime(world: World): Promise<void> {
  const { plan, random, clock } = world;
  const until = clock.monotonic() + plan.faultyMs;
  let next = clock.monotonic();
  while (clock.monotonic() < until) {
    if (clock.monotonic() >= next && plan.faults.length > 0) {
      cause(world, random.pick(plan.faults));
      next = clock.monotonic() + random.between(STEP_MS, 2 * plan.betweenFaultsMs);
    }
    await clock.advance(STEP_MS);
  }
}

const alive = ({ replicas }: World): Replica[] =>
  replicas.filter(({ isAlive, isStopping }) => isAlive && !isStopping);

// oxlint-disable-next-line complexity -- a case for each fault
function cause(world: World, fault: Fault): void {
  const { random, clock, server, replicas } = world;
  const victims = alive(world).filter(({ isWitness }) => !isWitness);
  const victim = victims.length > 0 ? random.pick(victims) : undefined;
  const hasWitness = replicas.some(({ isWitness, isAlive }) => isWitness && isAlive);
  const later = (mostMs: number, run: () => void): void => void clock.after(random.between(50, mostMs), run);
  note(world, `fault: ${fault} ${victim?.name ?? ""}`);
  switch (fault) {
    case "partition":
    case "kill":
    case "freeze":
    case "deploy":
    case "dead":
      return victim && hitReplica(world, fault, victim, later);
    case "surge":
      if (alive(world).length < 5) start(world, random.between(0, 2));
      return;
    case "redis-slow":
      server.slowMs = random.pick([50, 150, 400]);
      return later(3_000, () => void (server.slowMs = 0));
    case "limits":
      world.config = { ...world.config, windows: random.pick([world.plan.windows, world.plan.laterWindows]) };
      for (const replica of alive(world)) if (random.chance(0.7)) replica.limiter.configure(world.config);
      return;
    case "replicas":
      world.slots = random.pick([world.plan.slots, world.plan.laterSlots]);
      return;
    case "outage":
    case "redis-frozen":
    case "redis-empty":
    case "redis-restarted-empty":
    case "failover":
    case "clock-forward":
    case "clock-back":
      if (!hasWitness) hitRedis(world, fault, later);
  }
}

type Later = (mostMs: number, run: () => void) => void;

function hitReplica(
  world: World,
  fault: "partition" | "kill" | "freeze" | "deploy" | "dead",
  victim: Replica,
  later: Later,
): void {
  const { random, clock } = world;
  switch (fault) {
    case "partition":
      victim.isPartitioned = true;
      return later(6_000, () => void (victim.isPartitioned = false));
    case "freeze":
      victim.frozenUntil = clock.monotonic() + random.between(50, random.pick([400, 3_000]));
      return;
    case "kill":
    case "dead":
      victim.isAlive = false;
      if (fault === "dead") {
        const [other] = alive(world);
        // An operator reports it.
        if (other !== undefined)
          later(500, () => void other.limiter.replicas(victim.name).catch(() => undefined));
      }
      return later(1_500, () => replace(world, victim));
    case "deploy":
      if (random.chance(0.5)) start(world, victim.place);
      victim.isStopping = true;
      return later(300, () => {
        void stop(victim).then(() => replace(world, victim));
      });
  }
}

async function stop(replica: Replica): Promise<void> {
  await replica.limiter.close();
  replica.isAlive = false;
}

function replace(world: World, victim: Replica): void {
  const { place } = victim;
  if (world.isHealed || alive(world).length >= world.plan.running) return;
  start(world, place, world.otherRandom.chance(0.5) ? victim.address : undefined);
}

function hitRedis(world: World, fault: Fault, later: Later): void {
  const { server, random } = world;
  if (!server.isUp) return;
  if (fault === "redis-frozen") {
    server.frozenUntil = world.clock.monotonic() + random.between(50, 3_000);
    return;
  }
  if (fault === "outage") {
    server.isUp = false;
    return later(5_000, () => void (server.isUp = true));
  }
  // One replica that knows the data must survive. The design does not cover the loss of all of them.
  const witnesses = alive(world).filter(
    ({ limiter, isPartitioned, frozenUntil }) =>
      !isPartitioned && frozenUntil <= world.clock.monotonic() && limiter.state().mode === "shared",
  );
  const witness = witnesses.length > 0 ? random.pick(witnesses) : undefined;
  if (witness === undefined || server.frozenUntil > world.clock.monotonic()) return;
  // A clock that is set back loses no data.
  witness.isWitness = fault !== "clock-back";
  server.slowMs = 0;
  note(world, `witness: ${witness.name}`);
  loseData(world, fault, later);
  // A process that starts at this moment does not know the data.
  if (world.otherRandom.chance(0.3) && alive(world).length < 5) start(world, world.otherRandom.between(0, 2));
}

function loseData({ server, random }: World, fault: Fault, later: Later): void {
  if (fault === "clock-forward") server.skewMs += random.pick([1_500, 5_000, 60_000]);
  else if (fault === "clock-back") server.skewMs -= random.pick([500, 5_000, 60_000]);
  else if (fault === "redis-empty") server.data.restore(undefined);
  else {
    server.isUp = false;
    server.data.replaceServer();
    server.data.restore(fault === "failover" ? server.copy : undefined);
    server.copy = undefined;
    server.skewMs += random.between(-2_000, 2_000);
    later(1_500, () => void (server.isUp = true));
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
