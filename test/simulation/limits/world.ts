/** The world of one history: the clocks, Redis, the network, the replicas, and an upstream that records arrivals. */
import type { Clock } from "../../../src/process/clock.ts";
import type { LimiterConfig, Permit } from "../../../src/ratelimit/limiter.ts";
import { RedisPurse } from "../../../src/ratelimit/limits/redis-script.ts";
import { SharedLimiter } from "../../../src/ratelimit/limits/shared-purse.ts";
import type { RunOnRedis } from "../../../src/redis/redis.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { REQUEST } from "../../support/limiters.ts";
import { createRandom, type TestRandom } from "../../support/random.ts";
import type { Plan } from "./plan.ts";
import { createStageData, LUA, type RedisStage } from "../../support/redis-stage.ts";

export interface Replica {
  readonly name: string;
  readonly place: number;
  /** REPLICAS in its settings. */
  readonly slots: number;
  readonly limiter: SharedLimiter;
  isAlive: boolean;
  isStopping: boolean;
  isPartitioned: boolean;
  frozenUntil: number;
  /** It knows what Redis has lost. No fault hits it until Redis has heard it again. */
  isWitness: boolean;
  /** When one of its dispatchers last got an answer. */
  lastAnswerAt: number;
}

export type World = ReturnType<typeof createWorld>;

const STARTED_AT = 1_000_000;
let worlds = 0;

export function createWorld(stage: RedisStage, plan: Plan, random: TestRandom, lua = LUA) {
  const data = createStageData(stage, `${++worlds}:`, lua);
  const clock = createFakeClock(STARTED_AT, data.settled);
  const config: LimiterConfig = {
    windows: plan.windows,
    perDay: new Map(plan.hasPerDay ? [[REQUEST.app, 1_000_000]] : []),
    arrivalMs: plan.arrivalMs,
  };
  return {
    plan,
    random,
    clock,
    server: {
      data,
      isUp: true,
      /** Commands wait until this instant. */
      frozenUntil: 0,
      slowMs: 0,
      /** Of Redis' clock. */
      skewMs: random.between(0, 200_000),
    },
    replicas: [] as Replica[],
    arrivals: [] as number[],
    log: [] as string[],
    problems: [] as string[],
    config,
    slots: plan.slots,
    started: 0,
    /** No more faults. */
    isHealed: false,
  };
}

export function note(world: World, text: string): void {
  world.log.push(`${world.clock.monotonic() - STARTED_AT} ${text}`);
}

export function start(world: World, place: number): Replica {
  const { plan, clock } = world;
  const name = `p${++world.started}`;
  // The functions below need the replica before its limiter exists.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const replica = {
    name,
    place,
    slots: world.slots,
    isAlive: true,
    isStopping: false,
    isPartitioned: false,
    frozenUntil: 0,
    isWitness: false,
    lastAnswerAt: clock.monotonic(),
  } as Replica;
  const own = clockOf(world, replica);
  const limiter = new SharedLimiter({
    origin: "api",
    config: world.config,
    redis: new RedisPurse(networkTo(world, replica, own), world.server.data.namespace, "api"),
    clock: own,
    process: name,
    replicas: world.slots,
    degradedReserve: plan.reserve,
    degradedForMs: plan.degradedForMs,
    timeout: { ms: () => timeoutOf(world, place), mostMs: plan.timeoutMs },
    ledger: { retentionMs: 1_000_000, maxRecords: 1_000_000 },
    warn: (message) => note(world, `${name}: ${message}`),
    outOfOrder: ({ what, cause }) => note(world, `${name}: ${what} is out of order: ${cause}`),
    backInOrder: () => undefined,
    dataLost: () => undefined,
  });
  Object.assign(replica, { limiter });
  world.replicas.push(replica);
  note(world, `${name} starts at place ${place}`);
  const wake = new Set<() => void>();
  limiter.onChange(() => {
    for (const one of wake) one();
  });
  const count = plan.dispatchers[place % plan.dispatchers.length] ?? 0;
  for (let index = 0; index < count; index++) void dispatch(world, replica, own, wake);
  if (count > 0) limiter.announce([["interactive", "app", count]]);
  return replica;
}

/** Replicas wait for Redis for different times, which change. Use is measured with the longest one. */
function timeoutOf({ plan, clock }: World, place: number): number {
  const isShort = !plan.isMeasured && (Math.floor(clock.monotonic() / 3_000) + place) % 2 === 0;
  return isShort ? plan.timeoutMs / 3 : plan.timeoutMs;
}

/** A replica's own clock, with its own epoch and speed. Callbacks wait while the process is frozen. */
function clockOf(world: World, replica: Replica): Clock {
  const { clock, random } = world;
  // Machines agree on the time of day, but not exactly.
  const wrongMs = createRandom(world.started).between(-2_000, 2_000);
  const offset = random.between(-1_000_000, 1_000_000);
  const speed = 1 + random.between(-5, 5) / 10_000;
  const monotonic = (): number => Math.floor(clock.monotonic() * speed) + offset;
  return {
    now: () => clock.monotonic() + wrongMs,
    monotonic,
    precise: monotonic,
    machine: clock.machine,
    after: (delayMs, callback) =>
      clock.after(Math.max(0, Math.ceil(delayMs / speed)), () => deliver(world, replica, callback)),
  };
}

/** Runs a callback in a replica: never when it is dead, later when it is frozen. */
function deliver(world: World, replica: Replica, callback: () => void): void {
  if (!replica.isAlive) return;
  const now = world.clock.monotonic();
  if (now >= replica.frozenUntil) return callback();
  world.clock.after(replica.frozenUntil - now, () => deliver(world, replica, callback));
}

function delay({ random, server, isHealed }: World, isWitness: boolean): number {
  if (isWitness || isHealed) return random.between(1, 20);
  return (
    random.between(1, random.chance(0.03) ? 400 : 20) +
    (server.slowMs > 0 ? random.between(0, server.slowMs) : 0)
  );
}

/** A network that loses and delays messages. A command without a reply rejects after the timeout. */
function networkTo(world: World, replica: Replica, own: Clock): RunOnRedis {
  const { clock, server, random, plan } = world;
  const redisTime = (): number => clock.monotonic() * plan.redisRate + server.skewMs;
  const sharedPurse = (count: number, ...words: string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      async function arrive(): Promise<void> {
        const now = clock.monotonic();
        if (replica.isPartitioned) return;
        if (!server.isUp)
          return void (
            random.chance(0.5) &&
            clock.after(5, () => deliver(world, replica, () => reject(new Error("refused"))))
          );
        if (now < server.frozenUntil) return void clock.after(server.frozenUntil - now, () => void arrive());
        const isLost = !replica.isWitness && !world.isHealed && random.chance(plan.lostReplies);
        const delayMs = delay(world, replica.isWitness);
        const reply = await server.data
          .run(words.slice(0, count), words[count] ?? "", redisTime())
          .catch((error: unknown) => {
            world.problems.push(String(error));
            return "";
          });
        if (isLost) return;
        clock.after(delayMs, () => {
          if (replica.isPartitioned) return;
          replica.isWitness = false;
          deliver(world, replica, () => resolve(reply));
        });
      }
      own.after(timeoutOf(world, replica.place), () => reject(new Error("no answer in time")));
      if (!replica.isPartitioned) clock.after(delay(world, replica.isWitness), () => void arrive());
    });
  const xrange = async (): Promise<never[]> => [];
  // The limiter uses no other command.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return (_, __, command) => command({ sharedPurse, xrange } as never);
}

/** Requests permits and sends calls, one after the other, while the replica lives. */
async function dispatch(world: World, replica: Replica, own: Clock, wake: Set<() => void>): Promise<void> {
  const { random } = world;
  while (replica.isAlive && !replica.isStopping) {
    const acquired = await replica.limiter.acquire(REQUEST);
    replica.lastAnswerAt = world.clock.monotonic();
    if (acquired.kind === "permit") await send(world, replica, own, acquired.permit);
    else
      await new Promise<void>((resolve) => {
        const go = (): void => {
          wake.delete(go);
          resolve();
        };
        wake.add(go);
        own.after(random.between(5, 50), go);
      });
  }
}

async function send(world: World, replica: Replica, own: Clock, permit: Permit): Promise<void> {
  const { clock, random, plan } = world;
  if (random.chance(0.03)) return replica.limiter.release(permit);
  // The connection takes a moment.
  await new Promise<void>((resolve) => own.after(random.between(0, random.chance(0.1) ? 90 : 3), resolve));
  if (own.monotonic() > (permit.sendBy ?? 0)) return replica.limiter.release(permit);
  const departedAt = own.monotonic();
  // The call arrives also if the process dies meanwhile.
  const transferMs = random.between(0, random.chance(0.2) ? Math.floor(plan.arrivalMs * 0.59) : 3);
  clock.after(transferMs, () => {
    world.arrivals.push(clock.monotonic());
    note(world, `${permit.id} arrives`);
  });
  if (random.chance(plan.unsettled)) return;
  const ended = (): void => {
    const ms = own.monotonic() - departedAt;
    replica.limiter.complete(permit, { status: 200, durationMs: ms, arrivedAfterMs: ms });
  };
  own.after(transferMs + random.between(1, random.chance(0.1) ? 200 : 5), ended);
}
