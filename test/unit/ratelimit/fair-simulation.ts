/** Simulates apps, replicas and the scheduler in virtual time. */
import { createApps, type ListedApp } from "../../../src/ratelimit/apps.ts";
import type { RateWindow } from "../../../src/usage/rate-window.ts";
import {
  choose,
  recordPermit,
  createFairness,
  type Fairness,
  markSeen,
  type View,
  viewOf,
} from "../../../src/ratelimit/scheduler.ts";
import { predict } from "../../../src/ratelimit/prediction.ts";
import { createFakeLimiters, type FakeLimiter } from "../../support/fake-limiter.ts";

/** Callers of one app: each asks, waits for its answer, thinks, and asks again. */
interface Callers {
  readonly app: string;
  readonly callers: number;
  readonly thinkMs: number;
  readonly fromMs?: number;
}

export interface Play {
  readonly windows: readonly Omit<RateWindow, "name">[];
  readonly listed?: readonly ListedApp[];
  readonly replicas?: number;
  readonly callers: readonly Callers[];
  readonly forMs: number;
  /** How long the upstream takes. */
  readonly latencyMs?: number;
  readonly maxWaitMs?: number;
}

export interface Played {
  /** How long each call of an app waited for its permit, and when it arrived. */
  readonly waits: ReadonlyMap<string, readonly { readonly at: number; readonly ms: number }[]>;
  /** Calls of an app that were sent from an instant on. */
  readonly sent: (app: string | undefined, fromMs?: number) => number;
  readonly refusedAtOnce: () => number;
  /** The arrivals of the calls that were refused after waiting. */
  readonly refusedLate: readonly number[];
}

interface Call {
  readonly app: string;
  readonly askedAt: number;
  hopelessSince?: number | undefined;
  readonly done: () => void;
}

interface Replica {
  readonly limiter: FakeLimiter;
  readonly fairness: Fairness;
  readonly queues: Map<string, Call[]>;
  wakesAt: number;
}

/** How late a timer is, at most. */
const LATEST_TIMER_MS = 2;
/** The same as in src/ratelimit/admission.ts and dispatcher.ts. */
const MARGIN = 1.2;
const HOPELESS_PART = 0.5;
const HOPELESS_MS = 1_500;
const CHECK_EVERY_MS = 500;

export async function play(scene: Play): Promise<Played> {
  const { replicas: count = 1, latencyMs = 50, maxWaitMs = Number.POSITIVE_INFINITY } = scene;
  let now = 0;
  let order = 0;
  let seed = 1;
  const random = (): number => ((seed = (seed * 48_271) % 2_147_483_647) - 1) / 2_147_483_646;
  const events: { at: number; order: number; run: () => void | Promise<void> }[] = [];
  const at = (time: number, run: () => void | Promise<void>): void => {
    const event = { at: Math.max(now, time), order: order++, run };
    let index = events.length;
    while (index > 0 && isLater(event, events[index - 1])) index--;
    events.splice(index, 0, event);
  };
  const isLater = (event: { at: number; order: number }, other: typeof event | undefined): boolean =>
    other !== undefined && (event.at > other.at || (event.at === other.at && event.order > other.order));

  const limiters = createFakeLimiters({
    windows: scene.windows,
    now: () => now,
    newsAfterMs: count > 1 ? 500 : 0,
  });
  const apps = createApps({
    listed: scene.listed ?? [],
    defaultWeight: 1,
    maxUnlisted: 100,
    unlistedLabels: 20,
  });
  const replicas = Array.from({ length: count }, (): Replica => ({
    limiter: limiters.join(),
    fairness: createFairness(),
    queues: new Map(),
    wakesAt: Number.POSITIVE_INFINITY,
  }));
  const waits = new Map<string, { at: number; ms: number }[]>();
  const refusedLate: number[] = [];
  let refusedAtOnce = 0;
  const waitingAt = ({ queues }: Replica) =>
    [...queues].map(([app, queue]) => ({ app, priority: "interactive" as const, count: queue.length }));
  const viewAt = (replica: Replica): View =>
    viewOf({
      state: replica.limiter.state(),
      waiting: waitingAt(replica),
      fairness: replica.fairness,
      config: { apps, reserve: 0.2 },
      now,
    });

  function giveUp({ askedAt, done }: Call): void {
    refusedLate.push(askedAt);
    done();
  }
  /** Refuses calls whose permit is now predicted much too late. */
  function refuseHopeless(replica: Replica): void {
    at(now + CHECK_EVERY_MS, () => refuseHopeless(replica));
    const view = viewAt(replica);
    for (const [app, queue] of replica.queues) {
      const left = queue.filter((call, here) => {
        const waitMs = predict(view, { app, priority: "interactive" }, { here }).at - now;
        const isHopeless = waitMs > 0 && waitMs * HOPELESS_PART > call.askedAt + maxWaitMs - now;
        call.hopelessSince = isHopeless ? (call.hopelessSince ?? now) : undefined;
        return now - (call.hopelessSince ?? now) < HOPELESS_MS;
      });
      for (const call of queue) if (!left.includes(call)) giveUp(call);
      if (left.length > 0) replica.queues.set(app, left);
      else replica.queues.delete(app);
    }
  }
  async function pump(replica: Replica): Promise<void> {
    for (;;) {
      for (const [app, queue] of replica.queues) {
        const left = queue.filter((call) => call.askedAt + maxWaitMs >= now);
        for (const call of queue) if (!left.includes(call)) giveUp(call);
        if (left.length > 0) replica.queues.set(app, left);
        else replica.queues.delete(app);
      }
      replica.limiter.announce(waitingAt(replica));
      if (replica.queues.size === 0) return;
      markSeen(replica.fairness, replica.queues.keys(), now);
      const view = viewAt(replica);
      markSeen(
        replica.fairness,
        view.state.waitingElsewhere.map(({ app }) => app),
        now,
      );
      const heads = [...replica.queues.keys()].map((app) => ({ app, priority: "interactive" as const }));
      const choice = choose(view, heads);
      if (choice.kind === "wait") return wake(replica, choice.until);
      const { app } = choice.candidate;
      const request = {
        app,
        priority: "interactive",
        resource: "listings",
        cause: "miss",
        query: "q",
      } as const;
      const acquired = await replica.limiter.acquire({ ...request, leave: choice.leave });
      if (acquired.kind === "wait") return wake(replica, acquired.until);
      recordPermit(view, choice.candidate);
      const call = replica.queues.get(app)?.shift();
      if (replica.queues.get(app)?.length === 0) replica.queues.delete(app);
      if (call === undefined) continue;
      const waited = waits.get(app) ?? [];
      waited.push({ at: call.askedAt, ms: now - call.askedAt });
      waits.set(app, waited);
      at(now + latencyMs * (0.5 + random()), call.done);
      // With Redis, the next permit takes another round trip.
      if (count > 1) return wake(replica, now + 1);
    }
  }
  function wake(replica: Replica, until: number): void {
    const wakesAt = Math.ceil(until + LATEST_TIMER_MS * random());
    if (wakesAt >= replica.wakesAt || !Number.isFinite(wakesAt)) return;
    replica.wakesAt = wakesAt;
    at(wakesAt, () => {
      if (replica.wakesAt !== wakesAt) return;
      replica.wakesAt = Number.POSITIVE_INFINITY;
      return pump(replica);
    });
  }
  function ask(callers: Callers, replica: Replica): void | Promise<void> {
    const { app } = callers;
    const done = (): void => {
      at(now + callers.thinkMs * (0.8 + 0.4 * random()) + 1, () => ask(callers, replica));
    };
    markSeen(replica.fairness, [app], now);
    const view = viewAt(replica);
    const waitMs = (isCautious: boolean): number =>
      predict(view, { app, priority: "interactive" }, { isCautious }).at - now;
    if (waitMs(false) > 0 && waitMs(true) * MARGIN > maxWaitMs) {
      refusedAtOnce++;
      at(now + 200, done);
      return;
    }
    const queue = replica.queues.get(app) ?? [];
    queue.push({ app, askedAt: now, done });
    replica.queues.set(app, queue);
    return pump(replica);
  }

  for (const replica of replicas) at(CHECK_EVERY_MS, () => refuseHopeless(replica));
  for (const callers of scene.callers) {
    for (let index = 0; index < callers.callers; index++) {
      const replica = replicas[index % replicas.length];
      if (replica !== undefined)
        at((callers.fromMs ?? 0) + random() * Math.min(1000, callers.thinkMs + 1), () =>
          ask(callers, replica),
        );
    }
  }
  for (let event = events.pop(); event !== undefined && event.at <= scene.forMs; event = events.pop()) {
    now = event.at;
    await event.run();
  }
  return {
    waits,
    refusedAtOnce: () => refusedAtOnce,
    refusedLate,
    sent: (app, fromMs = 0) =>
      limiters.sends.filter(
        (send) =>
          (app === undefined || send.request.app === app) && send.at >= fromMs && send.at < scene.forMs,
      ).length,
  };
}

/** The smallest value that 95 % do not exceed. */
export function p95(waits: readonly { readonly ms: number }[] | undefined): number {
  const sorted = (waits ?? []).map(({ ms }) => ms).toSorted((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN;
}
