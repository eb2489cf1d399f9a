/** How long a call to the upstream usually takes: the last 200 answers of the last minute. */
export interface Latency {
  readonly add: (durationMs: number) => void;
  /** 99 % of calls take no longer. 0 while nothing is known. */
  readonly p99Ms: () => number;
  readonly meanMs: () => number;
}

const REMEMBERED = 200;
/** An upstream that was slow for a while is not taken for slow for ever. */
const REMEMBERED_MS = 60_000;
/** The percentile is computed anew this often, and after each answer. */
const COMPUTED_FOR_MS = 1_000;

/** @param now monotonic milliseconds */
export function createLatency(now: () => number): Latency {
  let answers: { readonly at: number; readonly durationMs: number }[] = [];
  let known = { until: Number.NEGATIVE_INFINITY, p99: 0 };

  function durations(): number[] {
    const since = now() - REMEMBERED_MS;
    if ((answers[0]?.at ?? since) < since) answers = answers.filter(({ at }) => at >= since);
    return answers.map(({ durationMs }) => durationMs);
  }

  return {
    add(durationMs) {
      answers.push({ at: now(), durationMs });
      if (answers.length > REMEMBERED) answers.shift();
      known = { ...known, until: Number.NEGATIVE_INFINITY };
    },
    p99Ms() {
      if (now() < known.until) return known.p99;
      const sorted = durations().toSorted((a, b) => a - b);
      known = { until: now() + COMPUTED_FOR_MS, p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0 };
      return known.p99;
    },
    meanMs() {
      const all = durations();
      return all.reduce((sum, ms) => sum + ms, 0) / Math.max(1, all.length);
    },
  };
}
