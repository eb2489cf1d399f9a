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

interface Context {
  readonly stack: Stack;
  readonly truth: Truth;
  readonly random: TestRandom;
}

const CALM_MS = 10_000;
const PAUSE_MS = { min: 1_500, max: 5_000 };
/** A fault with a higher number is tried more often. */
const WEIGHTS: Readonly<Record<string, number>> = { "data changes": 12, "SIGKILL a replica": 2 };

export function startInjector(stack: Stack, truth: Truth, seed: number) {
  const random = createRandom(seed);
  const context = { stack, truth, random };
  const faults: Faults = { ...upstreamFaults(context), ...changes(context), ...processFaults(context) };
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

function upstreamFaults({ stack, random }: Context): Faults {
  const some = ([fault, most]: (typeof UPSTREAM)[string]): Promise<unknown> => {
    const pathPrefix = random.pick(["", "/listings", "/sold"]);
    return stack.control("POST", "/faults", { ...fault, pathPrefix, times: random.between(1, most) });
  };
  return Object.fromEntries(Object.entries(UPSTREAM).map(([name, fault]) => [name, () => some(fault)]));
}

function changes({ stack, truth, random }: Context): Faults {
  let keys = 0;
  let isRotating = false;
  async function rotateKey(): Promise<void> {
    isRotating = true;
    const privateKey = `${CALLER.privateKey}-${++keys}`;
    const steps = [
      async () => stack.writeKey(privateKey),
      () => stack.control("POST", "/auth", { privateKey }),
    ];
    for (const step of random.shuffled(steps)) {
      await step();
      await lasting(random.between(0, 1_000));
    }
    isRotating = false;
  }
  return {
    "data changes": () => {
      const pathPrefix = random.pick(["", "/listings", "/listings", "/sold", "/areas", "/cache"]);
      return truth.change(pathPrefix, () => stack.control("POST", "/revise", { pathPrefix }));
    },
    "key rotation": () => (isRotating ? undefined : rotateKey()),
    async reload() {
      stack.writeSettings(settingsWith(random.pick([10, 20, 30])));
      for (const member of [...stack.replicas, stack.single].filter(isCalm))
        await ask(`${member.admin()}/config/reload`, { method: "POST" }).catch(() => undefined);
    },
  };
}

const isCalm = ({ calmSince }: Member): boolean => calmSince() <= Date.now();

function processFaults(context: Context): Faults {
  const { stack, random } = context;
  let witness: Member | undefined;
  const disk = diskFaults(context);
  async function restart(member: Member): Promise<void> {
    await lasting(random.between(0, 4_000));
    if (member === stack.single) await disk.hasRoom();
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
    [`${name} a replica`, onAnyOf(stack.replicas, act)] as const,
    [`${name} the single gateway`, onAnyOf([stack.single], act)] as const,
  ]);
  return {
    ...Object.fromEntries(ofProcesses),
    ...redisFaults(context, (replica) => (witness = replica)),
    ...(stack.isSmallDisk && { "full disk": disk.fault }),
  };
}

function redisFaults({ stack, random }: Context, setWitness: (replica: Member | undefined) => void): Faults {
  const { redis } = stack;
  let isBusy = false;
  let calmSince = Date.now();
  let saved = 0;

  /** Starts it with what was saved last, or with nothing. */
  async function restart(): Promise<void> {
    await redis.kill();
    await lasting(random.between(0, 5_000));
    await redis.restart("--dbfilename", `dump-${saved}.rdb`);
  }
  async function freeze(): Promise<void> {
    redis.freeze();
    await lasting(random.between(200, 8_000));
    redis.thaw();
  }
  async function whileBusy(act: () => Promise<unknown>): Promise<void> {
    isBusy = true;
    try {
      await act();
    } finally {
      isBusy = false;
      calmSince = Date.now();
    }
  }
  /** A fault that needs a replica that knows of the last calls. */
  const withWitness =
    (act: () => Promise<unknown>): Fault =>
    () => {
      const since = Date.now() - CALM_MS;
      const witness = stack.replicas.find((replica) => replica.calmSince() < since);
      if (isBusy || calmSince > since || witness === undefined) return undefined;
      setWitness(witness);
      const isShared = (): Promise<boolean> =>
        clientOf({ url: witness.url(), adminUrl: witness.admin() })
          .budget()
          .then(({ mode }) => mode === "shared")
          .catch(() => false);
      return whileBusy(async () => {
        if (!(await isShared())) return;
        await act();
        await lasting(CALM_MS);
      }).finally(() => setWitness(undefined));
    };
  return {
    "freeze Redis": () => (isBusy ? undefined : whileBusy(freeze)),
    "restart Redis, empty": withWitness(() => {
      saved += 1;
      return restart();
    }),
    "restart Redis with its data": withWitness(() => redis.command("SAVE").then(restart)),
    FLUSHALL: withWitness(() => redis.command("FLUSHALL")),
  };
}

/** A process that cannot open its file forgets what it sent, so a process starts only while the disk has room. */
function diskFaults({ stack, random }: Context): { fault: Fault; hasRoom: () => Promise<void> } {
  const filler = join(stack.dataDir, "filler");
  let full: Promise<void> | undefined;
  async function fill(): Promise<void> {
    fillDisk(filler);
    await lasting(random.between(2_000, 15_000));
    rmSync(filler);
    full = undefined;
  }
  return {
    fault: () => (full !== undefined || !isCalm(stack.single) ? undefined : (full = fill())),
    hasRoom: () => full ?? Promise.resolve(),
  };
}
