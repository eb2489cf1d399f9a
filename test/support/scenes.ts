/** The common days of the fair budget as a table, and the callers that play them before any gateway. */
import { expect } from "vitest";

import { MINUTE } from "./calls-scene.ts";

interface AppLoad {
  readonly app: string;
  /** Calls that arrive, whatever happens to others. */
  readonly perMinute?: number;
  /** Callers that ask again as soon as they have an answer, or when `Retry-After` says. */
  readonly loops?: number;
  readonly fromMs?: number;
}

export interface Day {
  readonly name: string;
  /** By default 60 calls a minute. */
  readonly windows?: readonly { readonly limit: number; readonly windowMs: number }[];
  /** The weights of the listed apps. */
  readonly listed?: Readonly<Record<string, number>>;
  readonly loads: readonly AppLoad[];
  readonly forMs: number;
  /** The duration in the long tests, if it is another one. */
  readonly inFullMs?: number;
  /** From then on what happens is counted. */
  readonly countFromMs?: number;
  readonly expect: (seen: Played) => void;
  /** What differs where a minute takes seconds of real time. */
  readonly inShort?: Partial<Pick<Day, "windows" | "loads" | "forMs">>;
}

/** Where a day is played. Instants and durations in milliseconds. */
export interface Stage {
  readonly replicas: number;
  /** The part of the first window that can be used at best. */
  readonly usable: number;
  readonly now: () => number;
  readonly after: (delayMs: number, callback: () => void) => unknown;
  /** Asks one of the replicas. */
  readonly ask: (replica: number, app: string, question: string) => Promise<Answer>;
  /** When calls were sent to the upstream. */
  readonly sent: () => readonly number[];
}

interface Answer {
  readonly isAnswered: boolean;
  /** It was refused after it had waited. */
  readonly isLate?: boolean;
  readonly waitedMs: number;
  readonly retryAfterMs?: number;
}

type AppSeen = ReturnType<typeof noOne>;

export interface Played extends Pick<Stage, "replicas" | "usable"> {
  readonly windows: NonNullable<Day["windows"]>;
  readonly of: (app: string) => AppSeen;
  readonly all: AppSeen;
  /** The part of the calls that were let in and then got no answer. */
  readonly late: number;
  /** The part of the first window that was used. */
  readonly used: number;
  /** The length of the counted time, in units of the first window. */
  readonly minutes: number;
}

const DAY = 24 * 60 * MINUTE;
const HOUR = 60 * MINUTE;
const WINDOWS = [{ limit: 60, windowMs: MINUTE }];

const ids = (count: number, perMinute: number): AppLoad[] =>
  Array.from({ length: count }, (_, index) => ({ app: `id${index}`, perMinute }));

/** What holds on every day: hardly any call is refused late, and callers that come back are let in. */
function expectKept({ all, late, replicas }: Played): void {
  expect(late).toBeLessThanOrEqual(0.03);
  // At each replica, one caller may come back when the app has spent its share of the day.
  expect(all.letIn).toBeGreaterThanOrEqual(0.9 * all.cameBack - replicas);
}

/** Only the one app that uses most of a long window is refused, and hardly ever. */
function expectHardlyRefused(seen: Played): void {
  const one = seen.of("one");
  expectKept(seen);
  expect(one.answered).toBeGreaterThanOrEqual(0.98 * one.asked);
  expect(seen.all.asked - seen.all.answered).toBe(one.asked - one.answered);
}

/** The day has as many calls as in the long version, in proportion to its limit. */
const SHORT_DAY = { windows: [...WINDOWS, { limit: 260, windowMs: DAY }], forMs: 8 * MINUTE };

/** @param perMinute how much one app asks @param others how many apps ask once an hour beside it */
const hourly = (perMinute: number, others: number): Day => ({
  name: `an app that asks ${perMinute} per minute for hours beside ${others} apps that ask once an hour is hardly refused`,
  windows: [...WINDOWS, { limit: 10_000, windowMs: DAY }],
  loads: [{ app: "one", perMinute }, ...ids(others, 1 / 60)],
  forMs: 2 * HOUR,
  inFullMs: 8 * HOUR,
  expect: expectHardlyRefused,
  inShort: { ...SHORT_DAY, loads: [{ app: "one", perMinute }, ...ids(others, 1 / 8)] },
});

export const DAYS: readonly Day[] = [
  hourly(20, 10),
  hourly(10, 50),
  {
    name: "an unlisted crawler leaves listed apps that come later all that they need",
    windows: [
      { limit: 120, windowMs: MINUTE },
      { limit: 2_000, windowMs: DAY },
    ],
    listed: { web: 1, ios: 1 },
    loads: [
      { app: "crawler", loops: 20 },
      { app: "web", perMinute: 0.4, fromMs: 2 * MINUTE },
      { app: "ios", perMinute: 0.2, fromMs: 2 * MINUTE },
    ],
    forMs: DAY,
    expect(seen) {
      expectKept(seen);
      const { replicas, windows } = seen;
      for (const app of ["web", "ios"]) expect(seen.of(app).answered).toBe(seen.of(app).asked);
      expect(seen.of("web").answered).toBeGreaterThan(seen.of("ios").answered);
      // Unlisted ids may use half of the day. A replica does not know how much is left in the own purses of the others.
      const crawled = seen.of("crawler").answered / (windows[1]?.limit ?? 0);
      expect(crawled).toBeGreaterThanOrEqual(replicas === 1 ? 0.495 : 0.43);
      expect(crawled).toBeLessThanOrEqual(0.5);
    },
    inShort: {
      windows: [
        { limit: 120, windowMs: MINUTE },
        { limit: 240, windowMs: DAY },
      ],
      loads: [
        { app: "crawler", loops: 20 },
        { app: "web", perMinute: 4, fromMs: 2 * MINUTE },
        { app: "ios", perMinute: 2, fromMs: 2 * MINUTE },
      ],
      forMs: 8 * MINUTE,
    },
  },
  {
    name: "a quiet app is served at once beside a hog, which gets what the quiet app leaves",
    loads: [
      { app: "hog", loops: 60 },
      { app: "quiet", perMinute: 5 },
    ],
    forMs: 12 * MINUTE,
    countFromMs: MINUTE,
    inShort: { forMs: 8 * MINUTE },
    expect(seen) {
      const { replicas, usable, minutes } = seen;
      const { asked, answered, waitedMs } = seen.of("quiet");
      if (replicas === 1) expect(answered).toBe(asked);
      // A refused call is not served at once.
      expect(waitedMs.filter((ms) => ms <= 400).length).toBeGreaterThanOrEqual(0.95 * asked);
      expect(seen.of("hog").answered).toBeGreaterThanOrEqual(0.8 * usable * (60 * minutes - answered));
      expectKept(seen);
    },
  },
  {
    name: "hungry apps share by weight, and use everything",
    listed: { a: 4, b: 2, c: 1 },
    loads: ["a", "b", "c"].map((app) => ({ app, perMinute: 120 })),
    forMs: 12 * MINUTE,
    countFromMs: 2 * MINUTE,
    inShort: { forMs: 8 * MINUTE, loads: ["a", "b", "c"].map((app) => ({ app, perMinute: 60 })) },
    expect(seen) {
      expectKept(seen);
      const total = seen.all.answered;
      for (const [app, weight] of Object.entries({ a: 4, b: 2, c: 1 })) {
        const part = seen.of(app).answered / total / (weight / 7);
        expect([app, part > 0.9 && part < 1.1, part]).toEqual([app, true, part]);
      }
      expect(seen.used).toBeGreaterThanOrEqual(0.98 * seen.usable);
    },
  },
  {
    name: "a hungry app that is alone uses everything, and is let in when it comes back",
    loads: [{ app: "one", loops: 30 }],
    forMs: 12 * MINUTE,
    countFromMs: MINUTE,
    inShort: { forMs: 8 * MINUTE },
    expect(seen) {
      // A replica learns late what callers were promised elsewhere.
      expect(seen.used).toBeGreaterThanOrEqual((seen.replicas === 1 ? 0.99 : 0.93) * seen.usable);
      expectKept(seen);
    },
  },
  {
    name: "50 apps that ask for more than there is each get between half and twice the mean",
    loads: ids(50, 2),
    forMs: 22 * MINUTE,
    countFromMs: 2 * MINUTE,
    inShort: { forMs: 14 * MINUTE },
    expect(seen) {
      expectKept(seen);
      const mean = seen.all.answered / 50;
      const answered = ids(50, 2).map(({ app }) => seen.of(app).answered);
      expect(Math.min(...answered)).toBeGreaterThanOrEqual(mean / 2);
      expect(Math.max(...answered)).toBeLessThanOrEqual(mean * 2);
    },
  },
  {
    name: "a listed app beside 99 invented ids gets its share, and an honest unlisted app half of its calls",
    listed: { web: 4 },
    loads: [{ app: "web", perMinute: 40 }, ...ids(99, 600 / 99), { app: "honest", perMinute: 1 }],
    forMs: 12 * MINUTE,
    inFullMs: 32 * MINUTE,
    countFromMs: 2 * MINUTE,
    expect(seen) {
      expectKept(seen);
      expect(seen.of("web").answered / seen.minutes).toBeGreaterThanOrEqual(30 * seen.usable);
      expect(seen.of("honest").answered).toBeGreaterThanOrEqual(0.5 * seen.of("honest").asked);
    },
  },
];

/** A process that has just started is slow for a while. */
const WARM_MS = 2 * MINUTE;

/**
 * The short version of a day, for real processes.
 * @param times a minute is so many times shorter. Windows longer than an hour keep their length, because other rules hold for them
 */
export function shortened(day: Day, times: number): Day & Required<Pick<Day, "windows" | "countFromMs">> {
  const { windows = WINDOWS, loads, forMs, countFromMs = 0, ...rest } = { ...day, ...day.inShort };
  return {
    ...rest,
    windows: windows.map((one) => (one.windowMs > HOUR ? one : { ...one, windowMs: one.windowMs / times })),
    loads: loads.map(({ perMinute = 0, fromMs = 0, ...load }) => ({
      ...load,
      perMinute: perMinute * times,
      fromMs: fromMs / times,
    })),
    forMs: (forMs + WARM_MS) / times,
    // Where everything counts from the beginning, it still does.
    countFromMs: countFromMs === 0 ? 0 : (countFromMs + WARM_MS) / times,
  };
}

const noOne = () => ({ asked: 0, answered: 0, late: 0, cameBack: 0, letIn: 0, waitedMs: Array<number>() });

export interface Playing extends Pick<Day, "windows" | "loads" | "forMs" | "countFromMs"> {
  readonly seed: number;
}

/** Callers begin to ask. @returns what they have seen, to be called when the day is over and all have their answers */
export function startCallers(stage: Stage, options: Playing): () => Played {
  const { windows = WINDOWS, loads, forMs, countFromMs = 0, seed } = options;
  const { now, after } = stage;
  const seen = new Map<string, AppSeen>();
  const random = createRandom(seed);
  const startedAt = now();
  let questions = 0;
  const newQuestion = (): string => `q${questions++}`;

  async function ask(app: string, question: string, isBack = false): Promise<number | undefined> {
    const isCounted = now() >= startedAt + countFromMs;
    const stats = seen.get(app) ?? noOne();
    seen.set(app, stats);
    const replica = Math.floor(random() * stage.replicas);
    const { isAnswered, isLate = false, waitedMs, retryAfterMs } = await stage.ask(replica, app, question);
    if (isCounted) {
      stats.asked++;
      if (isBack) stats.cameBack++;
      if (isBack && (isAnswered || isLate)) stats.letIn++;
      if (isAnswered) stats.waitedMs.push(waitedMs);
      if (isAnswered) stats.answered++;
      else if (isLate) stats.late++;
    }
    return retryAfterMs;
  }

  async function loop(app: string): Promise<void> {
    let [question, isBack] = [newQuestion(), false];
    while (now() < startedAt + forMs) {
      const againMs = await ask(app, question, isBack);
      isBack = againMs !== undefined;
      if (!isBack) question = newQuestion();
      await new Promise<void>((resolve) => void after(againMs ?? 0, resolve));
    }
  }

  for (const { app, perMinute = 0, loops = 0, fromMs = 0 } of loads) {
    if (perMinute > 0) {
      const arrive = (): void => {
        if (now() >= startedAt + forMs) return;
        void ask(app, newQuestion());
        after(nextMs(), arrive);
      };
      const nextMs = (): number => (MINUTE / perMinute) * (0.5 + random());
      after(fromMs + random() * (MINUTE / perMinute), arrive);
    }
    for (let index = 0; index < loops; index++) after(fromMs + random() * 1_000, () => void loop(app));
  }
  return () => {
    const isCounted = (at: number): boolean => at >= startedAt + countFromMs && at < startedAt + forMs;
    const [window = { limit: 1, windowMs: 1 }] = windows;
    const minutes = (forMs - countFromMs) / window.windowMs;
    const all = noOne();
    for (const one of seen.values())
      for (const key of ["asked", "answered", "late", "cameBack", "letIn"] as const) all[key] += one[key];
    return {
      replicas: stage.replicas,
      usable: stage.usable,
      windows,
      of: (app) => seen.get(app) ?? noOne(),
      all,
      late: all.late / Math.max(1, all.answered + all.late),
      used: stage.sent().filter(isCounted).length / (window.limit * minutes),
      minutes,
    };
  };
}

function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
