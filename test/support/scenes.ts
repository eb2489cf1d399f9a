/** Apps that call for a while: what each of them gets. */
import { createScene, MINUTE, type Scene, type SceneOptions } from "./calls-scene.ts";
import { type FakeClock } from "./fake-clock.ts";
import { fakeTime } from "./calls-scene.ts";
import { createFakeLimiters } from "./fake-limiter.ts";
import { Problem } from "../../src/errors.ts";
import { waitingOf } from "./waiting.ts";

export interface AppLoad {
  readonly app: string;
  /** Calls that arrive, whatever happens to others. */
  readonly perMinute?: number;
  /** Callers that ask again as soon as they have an answer, or when `Retry-After` says. */
  readonly loops?: number;
  readonly fromMs?: number;
}

export interface Play extends SceneOptions {
  readonly loads: readonly AppLoad[];
  readonly forMs: number;
  /** From then on what happens is counted. */
  readonly countFromMs?: number;
  /** Whether refused calls come back when `Retry-After` says. */
  readonly comeBack?: boolean;
  readonly maxWaitMs?: number;
  readonly seed: number;
}

interface AppSeen {
  asked: number;
  answered: number;
  refused: number;
  late: number;
  cameBack: number;
  letIn: number;
  readonly waitedMs: number[];
}

export interface Played {
  readonly of: (app: string) => AppSeen;
  readonly all: AppSeen;
  /** The part of the calls that were let in and then got no answer. */
  readonly late: number;
  /** The part of the first window that was used. */
  readonly used: number;
}

const noOne = (): AppSeen => ({
  asked: 0,
  answered: 0,
  refused: 0,
  late: 0,
  cameBack: 0,
  letIn: 0,
  waitedMs: [],
});

export async function play(options: Play): Promise<Played> {
  const { replicas = 1, loads, forMs, countFromMs = 0, maxWaitMs = 10_000, comeBack = false, seed } = options;
  const clock: FakeClock = fakeTime();
  const windows = options.windows ?? [{ limit: 60, windowMs: MINUTE }];
  const limiters = createFakeLimiters({ windows, now: clock.monotonic, newsAfterMs: replicas > 1 ? 250 : 0 });
  const scenes: Scene[] = Array.from({ length: replicas }, () =>
    createScene({ ...options, replicas, clock, limiters }),
  );
  const seen = new Map<string, AppSeen>();
  const random = createRandom(seed);
  const startedAt = clock.now();
  let questions = 0;
  const newQuestion = (): string => `q${questions++}`;

  async function ask(app: string, question: string, isBack = false): Promise<number | undefined> {
    const at = clock.now();
    const isCounted = at >= startedAt + countFromMs;
    const stats = seen.get(app) ?? noOne();
    seen.set(app, stats);
    const scene = scenes[Math.floor(random() * replicas)];
    const waiting = { ...waitingOf({ deadlineAt: at + maxWaitMs }), apps: () => [app] };
    let sentAt = 0;
    const result: unknown = await scene?.calls
      .run({ app, cause: "miss", resource: "listings", query: question, waiting }, async (ended) => {
        sentAt = clock.now();
        await new Promise<void>((resolve) => void clock.after(200, resolve));
        ended({ status: 200, arrivedAfterMs: 100, durationMs: 200 });
        return "answered";
      })
      .catch((error: unknown) => error);
    if (isCounted) {
      const isLate = result instanceof Problem && clock.now() > at + 50;
      stats.asked++;
      if (isBack) stats.cameBack++;
      if (isBack && (result === "answered" || isLate)) stats.letIn++;
      if (result === "answered") stats.waitedMs.push(sentAt - at);
      if (result === "answered") stats.answered++;
      else if (isLate) stats.late++;
      else stats.refused++;
    }
    return result instanceof Problem ? (result.details.retryAfterSeconds ?? 1) * 1_000 : undefined;
  }

  async function loop(app: string): Promise<void> {
    let [question, isBack] = [newQuestion(), false];
    while (clock.now() < startedAt + forMs) {
      const againMs = await ask(app, question, isBack);
      isBack = againMs !== undefined;
      if (!isBack) question = newQuestion();
      await new Promise<void>((resolve) => void clock.after(againMs ?? 0, resolve));
    }
  }

  async function askUntilAnswered(app: string): Promise<void> {
    const question = newQuestion();
    let againMs = await ask(app, question);
    if (!comeBack) return;
    while (againMs !== undefined && clock.now() + againMs < startedAt + forMs) {
      const pauseMs = againMs;
      await new Promise<void>((resolve) => void clock.after(pauseMs, resolve));
      againMs = await ask(app, question, true);
    }
  }

  for (const { app, perMinute = 0, loops = 0, fromMs = 0 } of loads) {
    if (perMinute > 0) {
      const arrive = (): void => {
        if (clock.now() >= startedAt + forMs) return;
        void askUntilAnswered(app);
        clock.after(nextMs(), arrive);
      };
      const nextMs = (): number => (MINUTE / perMinute) * (0.5 + random());
      clock.after(fromMs + random() * (MINUTE / perMinute), arrive);
    }
    for (let index = 0; index < loops; index++) clock.after(fromMs + random() * 1_000, () => void loop(app));
  }
  await clock.advance(forMs + maxWaitMs);
  const counted = limiters.sends.filter(
    ({ at }) => at - limiters0(clock) >= startedAt + countFromMs && at - limiters0(clock) < startedAt + forMs,
  );
  const [window = { limit: 1, windowMs: 1 }] = windows;
  const all = noOne();
  for (const one of seen.values())
    for (const key of ["asked", "answered", "refused", "late", "cameBack", "letIn"] as const)
      all[key] += one[key];
  return {
    of: (app) => seen.get(app) ?? noOne(),
    all,
    late: all.late / Math.max(1, all.answered + all.late),
    used: counted.length / ((window.limit * (forMs - countFromMs)) / window.windowMs),
  };
}

/** The fake clock's monotonic time is its time of day. */
function limiters0(clock: FakeClock): number {
  return clock.monotonic() - clock.now();
}

function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
