/** How the memory of each process grows. */
import { residentMiB } from "./member.ts";
import type { Stack } from "./stack.ts";

export interface MemoryUse {
  readonly name: string;
  /** Of the longest life without a restart, its first minute left out. */
  readonly minutes: number;
  readonly lastMiB: number;
  /** By least squares; null where no life was long enough. */
  readonly slopeMiBPerMinute: number | null;
}

export interface MemoryWatch {
  readonly stop: () => void;
  readonly uses: () => MemoryUse[];
}

type Sample = readonly [minute: number, MiB: number];

const SAMPLE_MS = 5_000;
const SETTLES_MIN = 1;
const SHORTEST_MIN = 1;

export function createMemoryWatch(
  { replicas, single, sandbox, redis }: Stack,
  now: () => number,
): MemoryWatch {
  const startedAt = now();
  /** Samples by process, and by the id of each life. */
  const lives = new Map<string, Map<number, Sample[]>>();
  const processes = [
    ...[...replicas, single].map(({ name, pid }) => ({ name, pid })),
    { name: "Redis", pid: redis.pid },
    { name: "sandbox", pid: () => sandbox.child.pid },
    { name: "the soak itself", pid: () => process.pid },
  ];
  const timer = setInterval(() => {
    for (const { name, pid } of processes) {
      const id = pid();
      const used = id === undefined ? undefined : residentMiB(id);
      if (id === undefined || used === undefined) continue;
      const own = lives.get(name) ?? new Map<number, Sample[]>();
      lives.set(name, own.set(id, [...(own.get(id) ?? []), [(now() - startedAt) / 60_000, used]]));
    }
  }, SAMPLE_MS);
  return {
    stop: () => clearInterval(timer),
    uses: () => [...lives].map(([name, own]) => useOf(name, [...own.values()])),
  };
}

function useOf(name: string, lives: readonly Sample[][]): MemoryUse {
  const settled = lives.map((samples) =>
    samples.filter(([minute]) => minute > (samples[0]?.[0] ?? 0) + SETTLES_MIN),
  );
  const longest = settled.reduce((one, other) => (other.length > one.length ? other : one), []);
  const minutes = (longest.at(-1)?.[0] ?? 0) - (longest[0]?.[0] ?? 0);
  const lastMiB = longest.at(-1)?.[1] ?? lives.at(-1)?.at(-1)?.[1] ?? 0;
  return { name, minutes, lastMiB, slopeMiBPerMinute: minutes < SHORTEST_MIN ? null : slope(longest) };
}

function slope(samples: readonly Sample[]): number {
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = mean(samples.map(([minute]) => minute));
  const y = mean(samples.map(([, used]) => used));
  const over = samples.reduce((sum, [minute, used]) => sum + (minute - x) * (used - y), 0);
  return over / samples.reduce((sum, [minute]) => sum + (minute - x) ** 2, 0);
}
