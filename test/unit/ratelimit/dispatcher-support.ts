import { type AppsConfig, createApps } from "../../../src/ratelimit/apps.ts";
import { createCircuits, type SharedCircuits, unsharedCircuits } from "../../../src/ratelimit/circuits.ts";
import type { DispatcherConfig } from "../../../src/ratelimit/departures.ts";
import { createDispatcher, type Dispatcher } from "../../../src/ratelimit/dispatcher.ts";
import type { RateWindow } from "../../../src/usage/rate-window.ts";
import type { Waiting, UpstreamRequest, SendEnd } from "../../../src/types.ts";
import { createFakeClock, type FakeClock, settled } from "../../support/fake-clock.ts";
import { createFakeLimiters, type FakeLimiters } from "../../support/fake-limiter.ts";
import { waitingOf } from "../../support/waiting.ts";

export const SECOND = 1_000;
export const MINUTE = 60_000;

export interface SceneOptions extends Partial<DispatcherConfig>, Partial<AppsConfig> {
  readonly windows?: readonly Omit<RateWindow, "name">[];
  readonly perDay?: ReadonlyMap<string, number>;
  readonly clock?: FakeClock;
  readonly limiters?: FakeLimiters;
  readonly shared?: SharedCircuits;
}

/** A call that the test controls. */
interface Call {
  /** Its error, or `answered`. */
  readonly result: Promise<unknown>;
  readonly hasStarted: () => boolean;
  /** The upstream answers. */
  readonly answer: (end?: Partial<SendEnd>) => void;
}

export interface Scene {
  readonly dispatcher: Dispatcher;
  readonly clock: FakeClock;
  readonly limiters: FakeLimiters;
  /** Apps whose calls departed, in order. */
  readonly departed: string[];
  readonly refused: string[];
  readonly logged: Readonly<Record<string, unknown>>[];
  readonly key: { version: number };
  /** Starts a call that lasts until the test answers it. */
  readonly call: (app: string, order?: Partial<UpstreamRequest>, waiting?: Partial<Waiting>) => Call;
  /** A call that is answered at once. @returns its error, or `answered` */
  readonly ask: (order?: Partial<UpstreamRequest>, end?: Partial<SendEnd>) => Promise<unknown>;
}

export const ANSWERED = "answered";

export function createScene(options: SceneOptions = {}): Scene {
  const { windows = [{ limit: 1_000, windowMs: MINUTE }], clock = createFakeClock(), perDay } = options;
  const limiters =
    options.limiters ?? createFakeLimiters({ windows, now: clock.monotonic, ...(perDay && { perDay }) });
  const apps = createApps({ listed: [], defaultWeight: 1, maxUnlisted: 100, unlistedLabels: 20, ...options });
  const [departed, refused]: [string[], string[]] = [[], []];
  const logged: Readonly<Record<string, unknown>>[] = [];
  const key = { version: 1 };
  const circuits = createCircuits(
    {
      shared: options.shared ?? unsharedCircuits(),
      now: clock.monotonic,
      keyVersion: () => key.version,
      probeWanted: () => undefined,
      warn: (_message, fields) => void logged.push(fields),
      onState: () => undefined,
      fraction: () => 0,
    },
    { windows: windows.map((window) => ({ ...window, name: "w" })), maxCoolOffMs: 5 * MINUTE },
  );
  const dispatcher = createDispatcher(
    {
      limiter: limiters.join(),
      circuits,
      apps,
      keyVersion: () => key.version,
      clock,
      fraction: () => 0,
      observer: {
        refused: (app, reason, isEnforced) =>
          void refused.push(`${app}: ${reason}${isEnforced ? "" : ", not enforced"}`),
        departed: ({ app }) => void departed.push(app),
      },
    },
    { concurrency: 4, mode: "enforce", reserve: 0.2, ...options },
  );
  const call: Scene["call"] = (app, order = {}, waiting = {}) => {
    const { promise: end, resolve } = Promise.withResolvers<SendEnd>();
    const startedAt = clock.monotonic();
    let hasStarted = false;
    const callers: UpstreamRequest["waiting"] = { ...waitingOf(), apps: () => [app], ...waiting };
    const full: UpstreamRequest = {
      app,
      cause: "miss",
      resource: "listings",
      query: `${app}?`,
      waiting: callers,
      ...order,
    };
    const result = dispatcher
      .run(full, async (ended) => {
        hasStarted = true;
        ended(await end);
        return ANSWERED;
      })
      .catch((error: unknown) => error);
    return {
      result,
      hasStarted: () => hasStarted,
      answer: (changes) =>
        resolve({ status: 200, arrivedAfterMs: 0, durationMs: clock.monotonic() - startedAt, ...changes }),
    };
  };
  return {
    dispatcher,
    clock,
    limiters,
    departed,
    refused,
    logged,
    key,
    call,
    ask(order = {}, end = {}) {
      const asked = call(order.app ?? "app", order, order.waiting ?? {});
      asked.answer(end);
      return asked.result;
    },
  };
}

/** Lets time pass until a condition holds. Bottleneck uses the real clock, so each step also takes real time. */
export async function passUntil(clock: FakeClock, condition: () => boolean, stepMs = 100): Promise<void> {
  for (let steps = 0; !condition(); steps++) {
    if (steps > 2_000) throw new Error("The condition never became true.");
    await new Promise((resolve) => setTimeout(resolve, 1));
    await settled();
    if (!condition()) await clock.advance(stepMs);
  }
}

/** Waits in real time until a condition holds that depends on promises and Bottleneck's timers. */
export async function comeTrue(condition: () => boolean): Promise<void> {
  for (let steps = 0; !condition(); steps++) {
    if (steps > 2_000) throw new Error("The condition never became true.");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
