/**
 * Faults at random. The seed decides which faults are tried and when; what is in progress decides which of them
 * are possible.
 *
 * One combination is left out, because docs/budget.md concedes it: Redis loses its data while all replicas that know of
 * the last calls are dead or cut off. So a fault that costs Redis its data, or restarts it, chooses a witness: a replica
 * that has worked for ten seconds, shares the budget, and is left alone until Redis has worked for ten seconds again.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";

import { ask } from "../support/ask.ts";
import { createRandom, type TestRandom } from "../support/random.ts";
import { CALLER } from "../support/gateway.ts";
import { fillDisk } from "../support/small-disk.ts";
import { lasting } from "./lasting.ts";
import type { Member } from "./member.ts";
import { settingsWith, type Stack } from "./stack.ts";
import type { Truth } from "./truth.ts";

/** Runs a fault from its beginning to its end; `undefined`: it is not possible now. */
type Fault = () => Promise<void> | undefined;

export interface Injector {
  /** How often each fault was injected. */
  readonly counts: Record<string, number>;
  /** Faults that could not be carried out, and why. */
  readonly failures: string[];
  /** Resolves when all faults have ended. */
  readonly stop: () => Promise<void>;
}

interface Context {
  readonly stack: Stack;
  readonly truth: Truth;
  readonly random: TestRandom;
  readonly now: () => number;
}

export interface InjectorOptions extends Omit<Context, "random"> {
  readonly seed: number;
}

const CALM_MS = 10_000;
const PAUSE_MS = { min: 1_500, max: 5_000 };
/** A fault with a higher number is tried more often. */
const WEIGHTS: Readonly<Record<string, number>> = { "data changes": 12, "SIGKILL a replica": 2 };

export function startInjector({ seed, ...rest }: InjectorOptions): Injector {
  const context = { ...rest, random: createRandom(seed) };
  const faults = { ...upstreamFaults(context), ...changes(context), ...processFaults(context) };
  const names = Object.keys(faults).flatMap((name) => Array<string>(WEIGHTS[name] ?? 1).fill(name));
  const counts: Record<string, number> = {};
  const failures: string[] = [];
  const running = new Set<Promise<void>>();
  const stopped = new AbortController();

  async function inject(): Promise<void> {
    while (!stopped.signal.aborted) {
      await lasting(context.random.between(PAUSE_MS.min, PAUSE_MS.max));
      const name = context.random.pick(names);
      const fault = faults[name]?.();
      if (fault === undefined) continue;
      counts[name] = (counts[name] ?? 0) + 1;
      const run: Promise<void> = fault
        .catch((error: unknown) => void failures.push(`${name}: ${String(error)}`))
        .finally(() => running.delete(run));
      running.add(run);
    }
  }
  const injecting = inject();
  return {
    counts,
    failures,
    async stop() {
      stopped.abort();
      await injecting;
      await Promise.all(running);
    },
  };
}

function upstreamFaults({ stack, random }: Context): Record<string, Fault> {
  const some = (fault: object, most: number): Fault =>
    async function () {
      const pathPrefix = random.pick(["", "/listings", "/sold"]);
      await stack.control("POST", "/faults", { ...fault, pathPrefix, times: random.between(1, most) });
    };
  return {
    "upstream 403": some({ status: 403 }, 3),
    "upstream 429": some({ status: 429, retryAfter: "2" }, 2),
    "upstream 500": some({ status: 500 }, 8),
    "upstream 503": some({ status: 503 }, 8),
    "upstream 503 with Retry-After": some({ status: 503, retryAfter: "3" }, 2),
    "body is cut": some({ cutBody: true }, 4),
    "upstream never answers": some({ hang: "headers" }, 3),
    "body stops": some({ hang: "body" }, 3),
    "upstream is slow": some({ latencyMs: 1_500 }, 15),
    "connection breaks": some({ disconnect: true }, 4),
    "not JSON": some({ wrongJson: true }, 3),
    "not an answer": some({ wrongEnvelope: true }, 3),
  };
}

function changes({ stack, truth, random }: Context): Record<string, Fault> {
  let keys = 0;
  let isRotating = false;
  async function rotateKey(): Promise<void> {
    isRotating = true;
    const privateKey = `${CALLER.privateKey}-${++keys}`;
    const steps = [
      () => Promise.resolve(stack.writeKey(privateKey)),
      () => stack.control("POST", "/auth", { privateKey }),
    ];
    for (const step of random.shuffled(steps)) {
      await step();
      await lasting(random.between(0, 1_000));
    }
    isRotating = false;
  }
  return {
    async "data changes"() {
      const pathPrefix = random.pick(["", "/listings", "/listings", "/sold", "/areas", "/cache"]);
      await truth.change(
        pathPrefix,
        async () => void (await stack.control("POST", "/revise", { pathPrefix })),
      );
    },
    "key rotation": () => (isRotating ? undefined : rotateKey()),
    async reload() {
      stack.writeSettings(settingsWith(random.pick([10, 20, 30])));
      for (const { admin, isCalm } of [...stack.replicas, stack.single])
        if (isCalm()) await ask(`${admin}/config/reload`, { method: "POST" }).catch(() => undefined);
    },
  };
}

function processFaults(context: Context): Record<string, Fault> {
  const { stack, random } = context;
  let witness: Member | undefined;
  const calm = (): Member[] => stack.replicas.filter((replica) => replica.isCalm() && replica !== witness);
  const onReplica =
    (act: (member: Member) => Promise<void>): Fault =>
    () => {
      const candidates = calm();
      return candidates.length === 0 ? undefined : act(random.pick(candidates));
    };
  const disk = diskFaults(context);
  const onSingle =
    (act: (member: Member) => Promise<void>): Fault =>
    () =>
      stack.single.isCalm() ? act(stack.single) : undefined;
  const kill = async (member: Member): Promise<void> => {
    await member.kill();
    await restart(member);
  };
  const stop = async (member: Member): Promise<void> => {
    await member.stop();
    await restart(member);
  };
  const restart = async (member: Member): Promise<void> => {
    await lasting(random.between(0, 4_000));
    if (member === stack.single) await disk.hasRoom();
    await member.begin();
  };
  const freeze = (member: Member): Promise<void> => member.freeze(random.between(500, 8_000));
  return {
    "SIGKILL a replica": onReplica(kill),
    "SIGTERM a replica": onReplica(stop),
    "freeze a replica": onReplica(freeze),
    "SIGKILL the single gateway": onSingle(kill),
    "SIGTERM the single gateway": onSingle(stop),
    "freeze the single gateway": onSingle(freeze),
    ...redisFaults(context, (replica) => (witness = replica)),
    ...(stack.isSmallDisk && { "full disk": disk.fault }),
  };
}

function redisFaults(
  { stack, random, now }: Context,
  setWitness: (replica: Member | undefined) => void,
): Record<string, Fault> {
  const { redis } = stack;
  let isBusy = false;
  let calmSince = now();
  let saved = 0;

  /** Starts it with what was saved last, or with nothing. */
  async function restart(): Promise<void> {
    await redis.kill();
    await lasting(random.between(0, 5_000));
    await redis.restart("--dbfilename", `dump-${saved}.rdb`);
  }
  async function whileBusy(act: () => Promise<void>): Promise<void> {
    isBusy = true;
    try {
      await act();
    } finally {
      isBusy = false;
      calmSince = now();
    }
  }
  /** A fault that needs a replica that knows of the last calls. */
  const withWitness =
    (act: () => Promise<void>): Fault =>
    () => {
      const since = now() - CALM_MS;
      const witness = stack.replicas.find((replica) => replica.isCalm() && replica.calmSince() < since);
      if (isBusy || calmSince > since || witness === undefined) return undefined;
      setWitness(witness);
      return whileBusy(async () => {
        try {
          if (!(await isShared(witness))) return;
          await act();
          await lasting(CALM_MS);
        } finally {
          setWitness(undefined);
        }
      });
    };
  return {
    "freeze Redis": () =>
      isBusy
        ? undefined
        : whileBusy(async () => {
            redis.freeze();
            await lasting(random.between(200, 8_000));
            redis.thaw();
          }),
    "restart Redis, empty": withWitness(async () => {
      saved += 1;
      await restart();
    }),
    "restart Redis with its data": withWitness(async () => {
      await redis.command("SAVE");
      await restart();
    }),
    FLUSHALL: withWitness(async () => void (await redis.command("FLUSHALL"))),
  };
}

/** Whether a replica shares the budget over Redis now. */
async function isShared({ admin }: Member): Promise<boolean> {
  const reply = await ask(`${admin}/budget`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
  return reply !== undefined && Object(reply.json()).api?.mode === "shared";
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
    fault: () => (full !== undefined || !stack.single.isCalm() ? undefined : (full = fill())),
    hasRoom: () => full ?? Promise.resolve(),
  };
}
