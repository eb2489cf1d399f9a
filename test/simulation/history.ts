/**
 * One history: replicas that share a budget, in virtual time, while things go wrong; then a while in which
 * nothing does. Its number decides everything in it.
 */
import { type Candidate, shareOf, type Terms } from "../../src/budget/arbiter.ts";
import { absentForMs } from "../../src/budget/shared-allowance.ts";
import type { Window } from "../../src/budget/windows.ts";
import { PRIORITIES } from "../../src/exchange.ts";
import { mostWithin } from "../support/arrivals.ts";
import { createDice, type Dice } from "../support/dice.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "../support/fake-clock.ts";
import type { Weather } from "./network.ts";
import { agreed, APPS, drawPlan, type Fault, LEASE_MS, type Plan } from "./plan.ts";
import { type Arrival, type Replica, startReplica, type Upstream } from "./replica.ts";
import { createSharedModel, emptyMemory, type Memory, type SharedModel } from "./shared-model.ts";

const FAULTY_MS = 15_000;
const STEP_MS = 100;
/** Rejoining, and until those that were replaced are not waited for any more. */
const RECOVERY_MS = 7_000;
/** Over how many windows it is seen whether all that there is gets used. */
const WINDOWS_OF_USE = 5;
const NOTICED_MS = 100;
/** A wait as short as this is for others to catch up; no place is promised with it. */
const CATCH_UP_MS = 250;

const RESOURCES = ["listings", "sold"] as const;

/** What a caller waits for. */
const callOf = (app: string): Candidate => ({ app, priority: "interactive", resource: "listings" });

export interface Outcome {
  readonly plan: Plan;
  readonly problems: readonly string[];
  readonly log: readonly string[];
}

interface World {
  readonly plan: Plan;
  readonly dice: Dice;
  readonly clock: FakeClock;
  readonly weather: Weather;
  readonly upstream: Upstream;
  readonly model: SharedModel;
  readonly alive: Set<Replica>;
  readonly arrivals: Arrival[];
  readonly note: (text: string) => void;
  readonly problems: string[];
  isLater: boolean;
  started: number;
}

export async function playHistory(seed: number, allowed?: readonly Fault[]): Promise<Outcome> {
  const dice = createDice(seed);
  const plan = drawPlan(dice, allowed);
  const world = createWorld(plan, dice);
  const { clock, problems } = world;
  const longestMs = Math.max(...plan.terms.windows.map(({ windowMs }) => windowMs));
  for (let index = 0; index < plan.replicas; index++) start(world);
  await clock.advance(500);
  await misfortunes(world);
  await heal(world);
  await clock.advance(RECOVERY_MS + longestMs);
  await checkUse(world, longestMs);
  await checkPromise(world, longestMs);
  for (const { limit, windowMs } of agreed(plan)) {
    const most = mostWithin(
      world.arrivals.map(({ at }) => at),
      windowMs,
    );
    if (most > limit) problems.push(`overrun: ${most} of ${limit} within ${windowMs} ms`);
  }
  for (const replica of world.alive) replica.kill();
  return { plan, problems, log: world.log };
}

function createWorld(plan: Plan, dice: Dice): World & { readonly log: readonly string[] } {
  const clock = createFakeClock(0, { letRun: promisesSettled });
  const log: string[] = [];
  const note = (text: string): void => void log.push(`${clock.steady()} ${text}`);
  const arrivals: Arrival[] = [];
  const alive = new Set<Replica>();
  const weather: Weather = { slowestMs: 5, loss: 0, newsLoss: 0, isUp: true };
  const upstream: Upstream = {
    slowestMs: 10,
    loss: 0.02,
    slowDown: 0,
    arrived: (arrival) => {
      note(`arrival of ${arrival.id}`);
      arrivals.push(arrival);
    },
  };
  const offsetMs = dice.between(-5_000, 5_000);
  const model = createSharedModel({
    now: () => clock.steady() + offsetMs,
    replicas: plan.replicas,
    absentForMs: absentForMs(plan.terms, plan.degradedForMs),
    tell: (news) => {
      for (const replica of alive) replica.hear(news);
    },
  });
  const problems: string[] = [];
  return {
    plan,
    dice,
    clock,
    weather,
    upstream,
    model,
    alive,
    arrivals,
    note,
    problems,
    log,
    isLater: false,
    started: 0,
  };
}

function start(world: World): void {
  const { plan, dice, alive } = world;
  const terms = world.isLater ? plan.laterTerms : plan.terms;
  const name = `r${++world.started}`;
  world.note(`${name} starts`);
  alive.add(startReplica({ ...world, ...plan, name, terms, offsetMs: dice.between(-5_000, 5_000) }));
}

async function misfortunes(world: World): Promise<void> {
  const { plan, dice, clock, upstream } = world;
  const kept: Memory[] = [];
  const until = clock.steady() + FAULTY_MS;
  upstream.slowestMs = dice.pick([20, 200, 1_400]);
  const eager = dice.chance(0.5);
  while (clock.steady() < until) {
    if (clock.steady() > until - FAULTY_MS / 2 && !world.isLater) world.isLater = true;
    for (const replica of world.alive) {
      if (eager || dice.chance(0.1))
        replica.want(
          { app: dice.pick(APPS), priority: dice.pick(PRIORITIES), resource: dice.pick(RESOURCES) },
          dice.between(1, eager ? 100 : 10),
        );
    }
    if (dice.chance(0.3)) kept.push(world.model.snapshot());
    if (kept.length > 10) kept.shift();
    if (dice.chance(0.06)) goWrong(world, dice.pick(plan.faults), kept);
    await clock.advance(STEP_MS);
  }
}

/** Undoes something after a while. */
function later(world: World, mostMs: number, undo: () => void): void {
  world.clock.after(world.dice.between(50, mostMs), undo);
}

function goWrong(world: World, fault: Fault, kept: readonly Memory[]): void {
  const { dice, weather, upstream, alive, note } = world;
  const replica = alive.size > 0 ? dice.pick([...alive]) : undefined;
  note(`fault: ${fault} ${replica?.name ?? ""}`);
  switch (fault) {
    case "slow":
      weather.slowestMs = dice.pick([30, 150, 500]);
      return later(world, 3_000, () => void (weather.slowestMs = 5));
    case "loss":
      weather.loss = dice.pick([0.02, 0.3]);
      return later(world, 3_000, () => void (weather.loss = 0));
    case "news-loss":
      weather.newsLoss = dice.pick([0.1, 1]);
      return later(world, 3_000, () => void (weather.newsLoss = 0));
    case "slow-down":
      upstream.slowDown = 0.2;
      return later(world, 2_000, () => void (upstream.slowDown = 0));
    case "outage-of-all":
    case "restart-kept":
    case "restart-partly":
    case "restart-lost":
      return hitServer(world, fault, kept);
    case "outage-of-one":
    case "kill":
    case "stop":
      if (replica !== undefined) hitReplica(world, fault, replica);
  }
}

function hitServer(world: World, fault: Fault, kept: readonly Memory[]): void {
  const { dice, weather, alive, model, note } = world;
  const isSettled = [...alive].every(({ link }) => link.hasJoined);
  if (!isSettled || !weather.isUp || alive.size === 0) return;
  weather.isUp = false;
  later(world, dice.pick([200, 6_000]), () => {
    if (fault !== "outage-of-all") model.restart(leftAfter(fault, model, kept, dice));
    note("the server is there");
    weather.isUp = true;
    for (const each of alive) if (each.link.isUp) each.check();
  });
}

function hitReplica(world: World, fault: "outage-of-one" | "kill" | "stop", replica: Replica): void {
  if (fault === "outage-of-one") {
    if (!replica.link.hasJoined) return;
    replica.link.isUp = false;
    return later(world, 6_000, () => {
      replica.link.isUp = true;
      replica.check();
    });
  }
  if (!world.weather.isUp || replica.hasSecrets()) return;
  if (fault === "stop") return void replica.stop().then(() => replace(world, replica));
  replica.kill();
  replace(world, replica);
}

function leftAfter(fault: Fault, model: SharedModel, kept: readonly Memory[], dice: Dice): Memory {
  if (fault === "restart-kept") return model.snapshot();
  if (fault === "restart-lost" || kept.length === 0) return emptyMemory();
  return dice.pick(kept);
}

function replace(world: World, replica: Replica): void {
  if (!world.alive.delete(replica)) return;
  world.note(`${replica.name} is gone`);
  const tryToStart = (): void => {
    // Where it cannot be reached, none is started: see network.ts.
    if (!world.weather.isUp) world.clock.after(100, tryToStart);
    else if (world.alive.size < world.plan.replicas) start(world);
  };
  later(world, 4_000, tryToStart);
}

async function heal(world: World): Promise<void> {
  const { alive, weather, upstream, clock, note } = world;
  // What was to be undone has been by then, and who is missing is there again.
  await clock.advance(6_500);
  note("all is well");
  Object.assign(weather, { slowestMs: 5, loss: 0, newsLoss: 0, isUp: true });
  Object.assign(upstream, { slowestMs: 10, loss: 0, slowDown: 0 });
  for (const replica of alive) {
    replica.link.isUp = true;
    replica.check();
    replica.drop();
    for (const app of APPS) replica.want(callOf(app), 500);
  }
}

/** Everybody wants as much as there is, and nothing goes wrong. */
async function checkUse(world: World, longestMs: number): Promise<void> {
  const { clock, arrivals, problems, alive } = world;
  const from = clock.steady();
  await clock.advance(longestMs * (WINDOWS_OF_USE + 1));
  const to = clock.steady();
  const terms = [...alive].map((replica) => replica.terms);
  // While limits are being changed, who has the lower ones goes by those.
  const windows = terms[0]?.windows ?? [];
  if (terms.some((other) => other.windows.some(({ limit }, index) => limit !== windows[index]?.limit)))
    return;
  const instants = arrivals.map(({ at }) => at).filter((at) => at >= from && at < to);
  // Sends come in bursts, a window apart: the best stretch is the one that cuts none of them in two.
  const used = Math.max(
    ...windows.map(
      ({ limit, windowMs }) => mostWithin(instants, windowMs * WINDOWS_OF_USE) / (limit * WINDOWS_OF_USE),
    ),
  );
  // One more or less at either end says nothing, and in windows as short as these it weighs how long it
  // takes until who waits has heard of a free place.
  const least = Math.min(
    ...windows.map(
      ({ limit, windowMs }) => (0.95 * windowMs) / (windowMs + NOTICED_MS) - 2 / (limit * WINDOWS_OF_USE),
    ),
  );
  if (used < least) problems.push(`only ${Math.round(used * 100)} % are used`);
  for (const app of APPS) {
    const sent = arrivals.filter((arrival) => arrival.app === app && arrival.at >= from && arrival.at < to);
    const share = Math.min(
      ...windows.map((window) => (shareIn(terms[0], window, app) * (to - from)) / window.windowMs),
    );
    if (sent.length < Math.floor(share * 0.9) - 1)
      problems.push(`${app} has sent ${sent.length}, its share is ${share}`);
  }
}

/** What is promised to one who waits is kept. */
async function checkPromise(world: World, longestMs: number): Promise<void> {
  const { clock, dice, alive, arrivals, problems, plan } = world;
  for (const replica of alive) replica.drop();
  await clock.advance(longestMs + LEASE_MS);
  if (alive.size === 0) return;
  const [busy, other] = [dice.pick([...alive]), dice.pick([...alive])];
  for (const app of APPS) busy.want(callOf(app), Math.max(...agreed(plan).map(({ limit }) => limit)));
  await clock.advance(dice.between(200, 800));
  for (const replica of alive) replica.drop();
  await clock.advance(dice.between(50, 400));
  const asked = other.promises.length;
  const before = arrivals.length;
  const askedAt = clock.steady();
  other.want(callOf("web"), 1);
  await clock.advance(longestMs * 2);
  const first = other.promises.slice(asked).find(({ forMs }) => forMs > CATCH_UP_MS);
  // It is not sent where it was withdrawn.
  const arrival = arrivals[before];
  const promisedAt = first === undefined ? askedAt : first.at + first.forMs;
  if (arrival === undefined) {
    if (other.wanted() > 0) problems.push("one who waits alone is never let through");
  } else if (arrival.at > promisedAt + 300 && other.promises.length > asked + 1)
    problems.push(`promised at ${promisedAt}, let through at ${arrival.at}`);
}

/** An app's share as its weight has it: where the limit is small, one that is rounded up to 1 is more than that. */
function shareIn(terms: Terms | undefined, window: Window, app: string): number {
  if (terms === undefined) return 0;
  const total = [...terms.apps.values()].reduce((sum, { weight }) => sum + weight, 0);
  return Math.min(shareOf(terms, window, app), (window.limit * (terms.apps.get(app)?.weight ?? 1)) / total);
}
