/**
 * Limiters in memory: exact, and shared by as many replicas as a test wants. What waits at other replicas is known
 * after a while, as it is with Redis.
 */
import type {
  Acquired,
  Limiter,
  LimiterState,
  LimitReason,
  Permit,
  PermitRequest,
  Told,
  WindowState,
} from "../../src/ratelimit/limiter.ts";
import type { RateWindow } from "../../src/usage/rate-window.ts";
import type { SendEnd } from "../../src/ratelimit/throttled.ts";

export type FakeLimiters = ReturnType<typeof createFakeLimiters>;

const DAY_MS = 86_400_000;

/** @param options `newsAfterMs`: how old the news of other replicas is */
export function createFakeLimiters(options: {
  windows: readonly (Omit<RateWindow, "name"> & { readonly name?: string })[];
  perDay?: ReadonlyMap<string, number>;
  now: () => number;
  newsAfterMs?: number;
}) {
  const { now, perDay = new Map<string, number>(), newsAfterMs = 0 } = options;
  const windows = options.windows.map((window) => ({ name: `${window.windowMs}ms`, ...window }));
  /** What was let go, in order. */
  const sends: { id: string; at: number; request: PermitRequest }[] = [];
  const completed: SendEnd[] = [];
  const replicas: { told: Told[]; listener: () => void }[] = [];
  let ids = 0;

  /** Where each window begins among the sends, and the counts in it; forgotten when a permit is released. */
  const counted = new Map<number, { from: number; to: number; byApp: Map<string, number> }>();
  const countIn = (ms: number): { from: number; byApp: Map<string, number> } => {
    const count = counted.get(ms) ?? { from: 0, to: 0, byApp: new Map<string, number>() };
    counted.set(ms, count);
    const add = (app: string | undefined, by: number): void => {
      if (app !== undefined) count.byApp.set(app, (count.byApp.get(app) ?? 0) + by);
    };
    for (; count.to < sends.length; count.to++) add(sends[count.to]?.request.app, 1);
    while ((sends[count.from]?.at ?? Number.POSITIVE_INFINITY) <= now() - ms)
      add(sends[count.from++]?.request.app, -1);
    return count;
  };
  /** The instants of each app's sends, ascending. */
  const instants = new Map<string, number[]>();
  const inLast = (ms: number, app: string, at = now()): number[] => {
    const all = instants.get(app) ?? [];
    let [low, high] = [0, all.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((all[middle] ?? 0) > at - ms) high = middle;
      else low = middle + 1;
    }
    return all.slice(low);
  };
  const windowState = (window: RateWindow): WindowState => {
    const { from, byApp } = countIn(window.windowMs);
    const spent = sends.length - from;
    return {
      ...window,
      spent,
      remaining: Math.max(0, window.limit - spent),
      freeAt: sends.slice(from, from + 100).map(({ at }) => at + window.windowMs),
      byApp: new Map(byApp),
    };
  };
  const reasonToWait = ({
    app,
    leave,
  }: PermitRequest): { until: number; reason: LimitReason } | undefined => {
    for (const [index, window] of windows.entries()) {
      const { from } = countIn(window.windowMs);
      const spent = sends.length - from;
      const excess = spent + (leave[index] ?? 0) + 1 - window.limit;
      if (excess > 0)
        return {
          until: (sends[from + excess - 1]?.at ?? now()) + window.windowMs,
          reason: spent < window.limit ? "reserved" : "budget",
        };
    }
    const most = perDay.get(app);
    if (most === undefined) return undefined;
    const today = inLast(DAY_MS, app);
    return today.length >= most ? { until: (today[0] ?? 0) + DAY_MS, reason: "per-day" } : undefined;
  };
  const grant = (request: PermitRequest): Permit => {
    const id = String(ids++);
    sends.push({ id, at: now(), request });
    instants.set(request.app, [...(instants.get(request.app) ?? []), now()]);
    return { id, request };
  };

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
      const state = (): LimiterState => ({
        mode: replicas.length > 1 ? "shared" : "alone",
        windows: windows.map(windowState),
        today: new Map(
          [...perDay.keys()].map((app) => {
            const today = inLast(DAY_MS, app);
            return [app, { spent: today.length, nextFreeAt: (today[0] ?? now()) + DAY_MS }];
          }),
        ),
        newsElsewhere: hear(),
      });
      return {
        async acquire(request): Promise<Acquired> {
          const why = request.ignoresLimits === true ? undefined : reasonToWait(request);
          if (why === undefined) return { kind: "permit", permit: grant(request) };
          return { kind: "wait", ...why };
        },
        complete: (_permit, end) => void completed.push(end),
        release({ id }) {
          const index = sends.findIndex((send) => send.id === id);
          const [released] = index >= 0 ? sends.splice(index, 1) : [];
          const own = released && instants.get(released.request.app);
          own?.splice(own.indexOf(released?.at ?? 0), 1);
          counted.clear();
          for (const { listener } of replicas) listener();
        },
        state,
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
