/**
 * Injects faults at random. The seed decides which faults are tried and when; what is in progress decides which of them
 * are possible.
 *
 * One combination is left out, because docs/budget.md concedes it: Redis loses its data while all replicas that know of
 * the last calls are dead or cut off. So a fault that costs Redis its data, or restarts it, chooses a witness: a replica
 * that has worked for ten seconds, shares the budget, and is left alone until Redis has worked for ten seconds again.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as lasting } from "node:timers/promises";

import type { Fault as UpstreamFault } from "../../src/sandbox/control/faults.ts";
import { ask } from "../support/ask.ts";
import { createRandom, type TestRandom } from "../support/random.ts";
import { CALLER, clientOf } from "../support/gateway.ts";
import { fillDisk } from "../support/small-disk.ts";
import type { Member } from "./member.ts";
import { settingsWith, type Stack } from "./stack.ts";
import type { Truth } from "./truth.ts";

/** Runs a fault from its beginning to its end; `undefined`: it is not possible now. */
type Fault = () => Promise<unknown> | undefined;
type Faults = Readonly<Record<string, Fault>>;

const CALM_MS = 10_000;
const PAUSE_MS = { min: 1_500, max: 5_000 };
/** A fault with a higher number is tried more often. */
const WEIGHTS: Readonly<Record<string, number>> = { "data changes": 12, "SIGKILL a replica": 2 };

export function startInjector(stack: Stack, truth: Truth, seed: number) {
  const random = createRandom(seed);
  const faults = createFaults(stack, truth, random);
  const names = Object.keys(faults).flatMap((name) => Array<string>(WEIGHTS[name] ?? 1).fill(name));
  const counts: Record<string, number> = {};
  const failures: string[] = [];
  const running = new Set<Promise<unknown>>();
  const stopped = new AbortController();

  async function inject(): Promise<void> {
    while (!stopped.signal.aborted) {
      await lasting(random.between(PAUSE_MS.min, PAUSE_MS.max));
      const name = random.pick(names);
      const fault = faults[name]?.();
      if (fault === undefined) continue;
      counts[name] = (counts[name] ?? 0) + 1;
      running.add(fault.catch((error: unknown) => void failures.push(`${name}: ${String(error)}`)));
    }
  }
  const injecting = inject();
  return {
    /** How often each fault was injected. */
    counts,
    /** Faults that could not be carried out, and why. */
    failures,
    /** Resolves when all faults have ended. */
    async stop(): Promise<void> {
      stopped.abort();
      await injecting;
      await Promise.all(running);
    },
  };
}

/** What the API does for up to so many requests. */
const UPSTREAM: Readonly<Record<string, readonly [UpstreamFault, most: number]>> = {
  "upstream 403": [{ status: 403 }, 3],
  "upstream 429": [{ status: 429, retryAfter: "2" }, 2],
  "upstream 500": [{ status: 500 }, 8],
  "upstream 503": [{ status: 503 }, 8],
  "upstream 503 with Retry-After": [{ status: 503, retryAfter: "3" }, 2],
  "body is cut": [{ cutBody: true }, 4],
  "upstream never answers": [{ hang: "headers" }, 3],
  "body stops": [{ hang: "body" }, 3],
  "upstream is slow": [{ latencyMs: 1_500 }, 15],
  "connection breaks": [{ disconnect: true }, 4],
  "not JSON": [{ wrongJson: true }, 3],
  "not an answer": [{ wrongEnvelope: true }, 3],
};

function createFaults(stack: Stack, truth: Truth, random: TestRandom): Faults {
  const { redis, replicas, single, control } = stack;
  const upTo = (ms: number, from = 0): Promise<void> => lasting(random.between(from, ms));
  const isCalm = ({ calmSince }: Member): boolean => calmSince() <= Date.now();

  function upstream([fault, most]: (typeof UPSTREAM)[string]): Promise<unknown> {
    const pathPrefix = random.pick(["", "/listings", "/sold"]);
    return control("POST", "/faults", { ...fault, pathPrefix, times: random.between(1, most) });
  }

  let keys = 0;
  let isRotating = false;
  async function rotateKey(): Promise<void> {
    isRotating = true;
    const privateKey = `${CALLER.privateKey}-${++keys}`;
    const steps = [async () => stack.writeKey(privateKey), () => control("POST", "/auth", { privateKey })];
    for (const step of random.shuffled(steps)) {
      await step();
      await upTo(1_000);
    }
    isRotating = false;
  }

  let full: Promise<void> | undefined;
  async function fill(): Promise<void> {
    const filler = join(stack.dataDir, "filler");
    fillDisk(filler);
    await upTo(15_000, 2_000);
    rmSync(filler);
    full = undefined;
  }

  let witness: Member | undefined;
  async function restart(member: Member): Promise<void> {
    await upTo(4_000);
    // A process that cannot open its file forgets what it sent, so it starts only while the disk has room.
    if (member === single) await full;
    await member.begin();
  }
  const acts: Readonly<Record<string, (member: Member) => Promise<void>>> = {
    SIGKILL: async (member) => await member.kill().then(() => restart(member)),
    SIGTERM: async (member) => await member.stop().then(() => restart(member)),
    freeze: (member) => member.freeze(random.between(500, 8_000)),
  };
  const onAnyOf =
    (members: readonly Member[], act: (member: Member) => Promise<void>): Fault =>
    () => {
      const candidates = members.filter((member) => isCalm(member) && member !== witness);
      return candidates.length === 0 ? undefined : act(random.pick(candidates));
    };
  const ofProcesses = Object.entries(acts).flatMap(([name, act]) => [
    [`${name} a replica`, onAnyOf(replicas, act)] as const,
    [`${name} the single gateway`, onAnyOf([single], act)] as const,
  ]);

  /** Infinity during a fault of Redis. */
  let redisCalmSince = Date.now();
  let saved = 0;
  async function whileBusy(act: () => Promise<unknown>): Promise<void> {
    redisCalmSince = Number.POSITIVE_INFINITY;
    await act().finally(() => (redisCalmSince = Date.now()));
  }
  async function freezeRedis(): Promise<void> {
    redis.freeze();
    await upTo(8_000, 200);
    redis.thaw();
  }
  /** Starts it with what was saved last, or with nothing. */
  async function restartRedis(): Promise<void> {
    await redis.kill();
    await upTo(5_000);
    await redis.restart("--dbfilename", `dump-${saved}.rdb`);
  }
  /** A fault that needs a replica that knows of the last calls. */
  const withWitness =
    (act: () => Promise<unknown>): Fault =>
    () => {
      const since = Date.now() - CALM_MS;
      const replica = replicas.find(({ calmSince }) => calmSince() < since);
      if (redisCalmSince > since || replica === undefined) return undefined;
      witness = replica;
      return whileBusy(async () => {
        const client = clientOf({ url: replica.url(), adminUrl: replica.admin() });
        const budget = await client.budget().catch(() => undefined);
        if (budget?.mode !== "shared") return;
        await act();
        await lasting(CALM_MS);
      }).finally(() => (witness = undefined));
    };

  return {
    ...Object.fromEntries(Object.entries(UPSTREAM).map(([name, fault]) => [name, () => upstream(fault)])),
    ...Object.fromEntries(ofProcesses),
    "data changes": () => {
      const pathPrefix = random.pick(["", "/listings", "/listings", "/sold", "/areas", "/cache"]);
      return truth.change(pathPrefix, () => control("POST", "/revise", { pathPrefix }));
    },
    "key rotation": () => (isRotating ? undefined : rotateKey()),
    async reload() {
      stack.writeSettings(settingsWith(random.pick([10, 20, 30])));
      for (const member of [...replicas, single].filter(isCalm))
        await ask(`${member.admin()}/config/reload`, { method: "POST" }).catch(() => undefined);
    },
    "freeze Redis": () => (redisCalmSince > Date.now() ? undefined : whileBusy(freezeRedis)),
    "restart Redis, empty": withWitness(() => {
      saved += 1;
      return restartRedis();
    }),
    "restart Redis with its data": withWitness(() => redis.command("SAVE").then(restartRedis)),
    FLUSHALL: withWitness(() => redis.command("FLUSHALL")),
    ...(stack.isSmallDisk && {
      "full disk": () => (full !== undefined || !isCalm(single) ? undefined : (full = fill())),
    }),
  };
}
