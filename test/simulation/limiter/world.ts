/** The world of one history: the clock, Redis, the network, the replicas, and an upstream that records arrivals. */
import { readFileSync } from "node:fs";

import type { Clock } from "../../../src/process/clock.ts";
import type { LimiterConfig, Permit } from "../../../src/ratelimit/limiter.ts";
import { createRedisLimiter, type RunLimiter } from "../../../src/ratelimit/redis-limiter.ts";
import { createSharedLimiter, type SharedLimiter } from "../../../src/ratelimit/shared-limiter.ts";
import type { TestRandom } from "../../support/random.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "../../support/fake-clock.ts";
import { createScriptRedis, type ScriptData, type ScriptRedis } from "../../support/script-redis.ts";
import type { Plan } from "./plan.ts";

const LUA = readFileSync(new URL("../../../src/ratelimit/lua/limiter.lua", import.meta.url), "utf8");
const NAMESPACE = "test:";
export const DEGRADED_RESERVE = 0.05;

interface Server {
  readonly data: ScriptRedis;
  isUp: boolean;
  /** Commands wait until this instant. */
  frozenUntil: number;
  slowMs: number;
  skewMs: number;
  /** An older copy of the data. A failover continues with it. */
  copy: ScriptData | undefined;
}

export interface Replica {
  readonly name: string;
  readonly place: number;
  readonly address: string;
  readonly limiter: SharedLimiter;
  isAlive: boolean;
  isStopping: boolean;
  isPartitioned: boolean;
  frozenUntil: number;
  /** Extra delay of its messages. */
  slowMs: number;
  /** It knows what Redis has lost. No fault hits it until it has joined again. */
  isWitness: boolean;
  /** When one of its dispatchers last got a reply. */
  lastReplyAt: number;
}

/** A request to the script and its reply. */
export interface ScriptCall {
  readonly at: number;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly reply: string;
}

export interface World {
  observe?: ((call: ScriptCall) => void) | undefined;
  readonly plan: Plan;
  readonly random: TestRandom;
  /** For faults that were added later, so that older histories do not change. */
  readonly otherRandom: TestRandom;
  readonly clock: FakeClock;
  readonly server: Server;
  readonly replicas: Replica[];
  readonly arrivals: { readonly at: number; readonly id: string }[];
  readonly log: string[];
  readonly problems: string[];
  config: LimiterConfig;
  slots: number;
  started: number;
  /** No more faults. */
  isHealed: boolean;
}

export function createWorld(plan: Plan, random: TestRandom, otherRandom: TestRandom, lua = LUA): World {
  const clock = createFakeClock(1_000_000, { letRun: promisesSettled });
  const server: Server = {
    isUp: true,
    frozenUntil: 0,
    slowMs: 0,
    skewMs: random.between(-100_000, 100_000),
    copy: undefined,
    data: createScriptRedis(lua, () => clock.monotonic() + server.skewMs),
  };
  const world: World = {
    plan,
    random,
    otherRandom,
    clock,
    server,
    replicas: [],
    arrivals: [],
    log: [],
    problems: [],
    config: { windows: plan.windows, perDay: new Map(), arrivalMs: plan.arrivalMs },
    slots: plan.slots,
    started: 0,
    isHealed: false,
  };
  if (plan.faults.includes("failover")) copyNow(world);
  return world;
}

function copyNow({ server, clock, random }: Pick<World, "server" | "clock" | "random">): void {
  clock.after(random.between(300, 900), () => {
    server.copy = server.data.snapshot();
    copyNow({ server, clock, random });
  });
}

export function note(world: World, text: string): void {
  world.log.push(`${world.clock.monotonic() - 1_000_000} ${text}`);
}

/** @param address of a process that has ended, to start a new one there */
export function start(world: World, place: number, address = `address-${world.started}`): Replica {
  const { plan, clock } = world;
  const name = `p${++world.started}`;
  // The functions below need the replica before its limiter exists.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const replica = {
    name,
    place,
    address,
    isAlive: true,
    isStopping: false,
    isPartitioned: false,
    frozenUntil: 0,
    slowMs: 0,
    isWitness: false,
    lastReplyAt: clock.monotonic(),
  } as Replica;
  const own = clockOf(world, replica);
  const run = networkTo(world, replica);
  const limiter = createSharedLimiter({
    origin: "api",
    config: world.config,
    ask: createRedisLimiter(run, NAMESPACE, "api"),
    clock: own,
    process: name,
    address: () => address,
    replicas: world.slots,
    degradedReserve: DEGRADED_RESERVE,
    degradedForMs: plan.degradedForMs,
    leaseMs: plan.leaseMs,
    timeoutMs: plan.timeoutMs,
    ledger: { retentionMs: 1_000_000, maxRecords: 1_000_000 },
    warn: (message) => note(world, `${name}: ${message}`),
    outOfOrder: ({ what, cause }) => note(world, `${name}: ${what} is out of order: ${cause}`),
    backInOrder: () => undefined,
  });
  Object.assign(replica, { limiter });
  world.replicas.push(replica);
  note(world, `${name} starts at place ${place}, ${address}`);
  const wake = new Set<() => void>();
  limiter.onChange(() => {
    for (const one of wake) one();
  });
  const count = plan.dispatchers[place % plan.dispatchers.length] ?? 0;
  for (let index = 0; index < count; index++) void dispatch(world, replica, own, wake);
  if (count > 0) limiter.announce([{ app: "app", priority: "interactive", count }]);
  return replica;
}

/** A replica's own clock, with its own epoch and speed. Callbacks wait while the process is frozen. */
function clockOf(world: World, replica: Replica): Clock {
  const { clock, random } = world;
  const offset = random.between(-1_000_000, 1_000_000);
  const speed = 1 + random.between(-5, 5) / 10_000;
  const monotonic = (): number => Math.floor(clock.monotonic() * speed) + offset;
  return {
    now: monotonic,
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
    random.between(1, random.chance(0.05) ? 400 : 20) +
    (server.slowMs > 0 ? random.between(0, server.slowMs) : 0)
  );
}

function networkTo(world: World, replica: Replica): RunLimiter {
  const { clock, server, random } = world;
  const limitCalls = (count: number, ...words: string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      const refuse = (): void => {
        clock.after(5, () => deliver(world, replica, () => reject(new Error("refused"))));
      };
      function arrive(): void {
        const now = clock.monotonic();
        if (replica.isPartitioned) return;
        if (!server.isUp) return random.chance(0.5) ? refuse() : undefined;
        if (now < server.frozenUntil) return void clock.after(server.frozenUntil - now, arrive);
        const [keys, args] = [words.slice(0, count), words.slice(count)];
        const reply = server.data.run(keys, args);
        if (reply.includes('"kind":"joined"')) replica.isWitness = false;
        world.observe?.({ at: now + server.skewMs, keys, args, reply });
        clock.after(delay(world, replica.isWitness), () => {
          if (!replica.isPartitioned) deliver(world, replica, () => resolve(reply));
        });
      }
      if (replica.isPartitioned) return;
      clock.after(replica.slowMs + delay(world, replica.isWitness), () => {
        try {
          arrive();
        } catch (error) {
          world.problems.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
        }
      });
    });
  // The limiter uses no other command.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return (_, __, command) => command({ limitCalls } as never);
}

/** Requests permits and sends calls, one after the other, while the replica lives. */
async function dispatch(world: World, replica: Replica, own: Clock, wake: Set<() => void>): Promise<void> {
  const { plan, random } = world;
  const request = {
    ...({ app: "app", priority: "interactive", resource: "listings", cause: "miss", query: "q" } as const),
    leave: plan.windows.map(() => 0),
  };
  while (replica.isAlive && !replica.isStopping) {
    const acquired = await replica.limiter.acquire(request);
    replica.lastReplyAt = world.clock.monotonic();
    if (acquired.kind === "permit") await send(world, replica, own, acquired.permit);
    else
      await new Promise<void>((resolve) => {
        const go = (): void => {
          wake.delete(go);
          resolve();
        };
        wake.add(go);
        own.after(Math.max(random.between(0, 5), acquired.until - own.monotonic()), go);
      });
  }
}

async function send(world: World, replica: Replica, own: Clock, permit: Permit): Promise<void> {
  const { clock, random, plan, arrivals } = world;
  if (random.chance(0.03)) return replica.limiter.release(permit);
  // The connection takes a moment.
  await new Promise<void>((resolve) => own.after(random.between(0, random.chance(0.1) ? 90 : 3), resolve));
  if (own.monotonic() > (permit.sendBy ?? 0)) return replica.limiter.release(permit);
  const departedAt = own.monotonic();
  // The call arrives also if the process dies meanwhile.
  const transferMs = random.between(0, random.chance(0.1) ? plan.arrivalMs / 4 - 1 : 3);
  clock.after(transferMs, () => void arrivals.push({ at: clock.monotonic(), id: permit.id }));
  if (random.chance(plan.unsettled)) return;
  const answeredAfterMs = transferMs + random.between(1, random.chance(0.1) ? 200 : 5);
  const ended = (): void => {
    const ms = own.monotonic() - departedAt;
    replica.limiter.complete(permit, { status: 200, durationMs: ms, arrivedAfterMs: ms });
  };
  own.after(answeredAfterMs, ended);
}
