/** One history's world: its clock, its weather, its upstream, the server, and the replicas that are alive. */
import { absentForMs } from "../../src/ratelimit/shared-allowance.ts";
import type { Candidate } from "../../src/ratelimit/arbiter.ts";
import type { Dice } from "../support/dice.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "../support/fake-clock.ts";
import type { Weather } from "./network.ts";
import type { Plan } from "./plan.ts";
import { type Arrival, type Replica, startReplica, type Upstream } from "./replica.ts";
import { createSharedModel, type SharedModel } from "./shared-model.ts";
import { createWatch, type Watch } from "./watch.ts";

/** No clock, however far behind, is before its epoch. */
const BEGUN_AT = 10_000;
/** So much happens in no history at one instant. */
const MOST_AT_ONCE = 100_000;

export interface World {
  readonly plan: Plan;
  readonly dice: Dice;
  readonly clock: FakeClock;
  readonly weather: Weather;
  readonly upstream: Upstream;
  readonly model: SharedModel;
  readonly watch: Watch;
  readonly alive: Set<Replica>;
  readonly arrivals: Arrival[];
  readonly note: (text: string) => void;
  readonly log: readonly string[];
  readonly problems: string[];
  readonly failed: (error: unknown) => void;
  isLater: boolean;
  started: number;
  /** When the server last lost what it knew, or some of it. */
  lostAt: number;
}

/** What a caller waits for. */
export const callOf = (app: string): Candidate => ({ app, priority: "interactive", resource: "listings" });

export function createWorld(plan: Plan, dice: Dice): World {
  const clock = createVirtualClock();
  const log: string[] = [];
  const note = (text: string): void => void log.push(`${clock.monotonic()} ${text}`);
  const arrivals: Arrival[] = [];
  const alive = new Set<Replica>();
  const weather: Weather = { slowestMs: 5, loss: 0, newsLoss: 0, isUp: true };
  const offsetMs = dice.between(-5_000, 5_000);
  const serverNow = (): number => clock.monotonic() + offsetMs;
  const watch = createWatch(serverNow);
  const upstream: Upstream = {
    slowestMs: 10,
    loss: 0.02,
    slowDown: 0,
    causes: ["too-many-requests", "unavailable", "unreachable"],
    arrived(arrival) {
      note(`arrival of ${arrival.id}`);
      arrivals.push(arrival);
      watch.arrived(arrival.id);
    },
  };
  const problems: string[] = [];
  const model = createSharedModel({
    now: serverNow,
    replicas: plan.replicas,
    absentForMs: absentForMs(plan.terms, plan.degradedForMs),
    tell: (news) => {
      for (const replica of alive) replica.hear(news);
    },
  });
  return {
    plan,
    dice,
    clock,
    weather,
    upstream,
    model: watched(model, watch),
    watch,
    alive,
    arrivals,
    note,
    log,
    problems,
    failed: (error) => void problems.push(textOf(error)),
    isLater: false,
    started: 0,
    lostAt: Number.NEGATIVE_INFINITY,
  };
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Nothing comes from outside, and time does not stand still for ever. */
function createVirtualClock(): FakeClock {
  let at = BEGUN_AT;
  let times = 0;
  const clock: FakeClock = createFakeClock(BEGUN_AT, {
    letRun() {
      times = clock.monotonic() === at ? times + 1 : 0;
      at = clock.monotonic();
      if (times > MOST_AT_ONCE) throw new Error(`time stands still at ${at}`);
      return promisesSettled();
    },
  });
  return clock;
}

function watched(model: SharedModel, watch: Watch): SharedModel {
  return {
    ...model,
    take(terms, request) {
      const reply = model.take(terms, request);
      const wish = reply.kind === "granted" ? request.wishes[reply.index] : undefined;
      if (reply.kind === "granted" && wish !== undefined) watch.granted(reply.id, wish, terms);
      return reply;
    },
    settle(terms, asker, ends) {
      const reply = model.settle(terms, asker, ends);
      if (reply.kind === "settled") watch.settled(ends, terms);
      return reply;
    },
    restart(left) {
      watch.restarted(left.circuits, left.refused);
      model.restart(left);
    },
  };
}

export function start(world: World): Replica {
  const { plan, dice, alive } = world;
  const terms = world.isLater ? plan.laterTerms : plan.terms;
  const name = `r${++world.started}`;
  world.note(`${name} starts`);
  const replica = startReplica({ ...world, ...plan, name, terms, offsetMs: dice.between(-5_000, 5_000) });
  alive.add(replica);
  return replica;
}
