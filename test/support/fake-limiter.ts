/**
 * The limits of a process without Redis, shared by as many replicas as a test wants. What waits at other replicas is known
 * after a while, as it is with Redis. A call counts from its permit.
 */
import type { Clock } from "../../src/process/clock.ts";
import type { Limiter, PermitRequest, Told } from "../../src/ratelimit/limiter.ts";
import { LocalLimiter } from "../../src/ratelimit/limits/local-limiter.ts";
import type { SendEnd } from "../../src/ratelimit/throttled.ts";
import type { RateWindow } from "../../src/usage/rate-window.ts";

export type FakeLimiters = ReturnType<typeof createFakeLimiters>;

/** @param options `newsAfterMs`: how old the news of other replicas is */
export function createFakeLimiters(options: {
  windows: readonly Omit<RateWindow, "name">[];
  perDay?: ReadonlyMap<string, number>;
  clock: Clock;
  newsAfterMs?: number;
}) {
  const { clock, perDay = new Map<string, number>(), newsAfterMs = 0 } = options;
  const now = clock.monotonic;
  const windows = options.windows.map((window) => ({ ...window, name: `${window.windowMs}ms` }));
  const limiter = new LocalLimiter({
    origin: "api",
    config: { windows, perDay, arrivalMs: 0 },
    ledger: { recent: () => [], enter: () => undefined, complete: () => undefined },
    clock,
    process: "p1",
  });
  /** What was let go, in order. */
  const sends: { id: string; at: number; request: PermitRequest }[] = [];
  const completed: SendEnd[] = [];
  const replicas: { told: Told[]; listener: () => void }[] = [];
  limiter.onChange(() => {
    for (const { listener } of replicas) listener();
  });

  return {
    sends,
    completed,
    join(): Limiter {
      const me = { told: [] as Told[], listener: (): void => undefined };
      replicas.push(me);
      const known = (): Told[] =>
        replicas.flatMap((other) => {
          const last = other.told.findLast(({ at }) => at <= now() - newsAfterMs);
          return other === me || last === undefined ? [] : [last];
        });
      let heard: readonly Told[] = [];
      let newsElsewhere: Told = { at: 0, news: [] };
      const hear = (): Told => {
        const all = known();
        if (all.some((told, index) => told !== heard[index])) {
          const at = Math.max(...all.map((told) => told.at)) + newsAfterMs;
          newsElsewhere = { at, news: all.flatMap(({ news }) => news) };
        }
        heard = all;
        return newsElsewhere;
      };
      return {
        async acquire(request) {
          const acquired = await limiter.acquire(request);
          if (acquired.kind === "permit") sends.push({ id: acquired.permit.id, at: now(), request });
          return acquired;
        },
        complete: (_permit, end) => void completed.push(end),
        release(permit) {
          const index = sends.findIndex(({ id }) => id === permit.id);
          sends.splice(index, 1);
          limiter.release(permit);
        },
        state: () => ({
          ...limiter.state(),
          mode: replicas.length > 1 ? "shared" : "alone",
          newsElsewhere: hear(),
        }),
        announce(news) {
          if (me.told.at(-1)?.at === now()) me.told.pop();
          me.told.push({ at: now(), news });
          while ((me.told[1]?.at ?? Number.POSITIVE_INFINITY) <= now() - newsAfterMs) me.told.shift();
        },
        onChange: (listener) => void (me.listener = listener),
        configure: () => undefined,
        close: async () => undefined,
      };
    },
  };
}
