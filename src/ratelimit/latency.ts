/** How long a call to the upstream usually takes: the last 200 answers. */
export interface Latency {
  readonly add: (durationMs: number) => void;
  /** 99 % of calls take no longer. 0 while nothing is known. */
  readonly p99Ms: () => number;
  readonly meanMs: () => number;
}

const REMEMBERED = 200;

export function createLatency(): Latency {
  const durations: number[] = [];
  let added = 0;
  let p99: number | undefined;
  return {
    add(durationMs) {
      durations[added++ % REMEMBERED] = durationMs;
      p99 = undefined;
    },
    p99Ms() {
      p99 ??= durations.toSorted((a, b) => a - b)[Math.ceil(durations.length * 0.99) - 1] ?? 0;
      return p99;
    },
    meanMs: () => durations.reduce((sum, ms) => sum + ms, 0) / Math.max(1, durations.length),
  };
}
