export interface Measured {
  /** Wall time per operation, milliseconds. */
  readonly wallMs: number;
  /** CPU time of this process per operation, milliseconds. */
  readonly cpuMs: number;
  readonly perSecond: number;
  /** The number of operations. */
  readonly count: number;
}

/** Runs an operation for this long, this many at once. It does not warm up; run it once before for that. */
export async function measure(forMs: number, atOnce: number, operation: () => unknown): Promise<Measured> {
  const end = performance.now() + forMs;
  let count = 0;
  const worker = async (): Promise<void> => {
    while (performance.now() < end) {
      await operation();
      count++;
    }
  };
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: atOnce }, worker));
  const wall = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  const cpuMs = (user + system) / 1000 / count;
  return { wallMs: (wall * atOnce) / count, cpuMs, perSecond: (count / wall) * 1000, count };
}
