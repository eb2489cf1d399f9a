/** Shares of apps that are not listed, over real sockets. The same is played with fake clocks in unit/ratelimit. */
import { describe, expect, it, onTestFinished } from "vitest";

import { mostWithin } from "../support/arrivals.ts";
import { ask } from "../support/ask.ts";
import { type AppAnswers, type AppCallers, askForAWhile, percentile } from "../support/crowds.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { startRedis } from "../support/redis.ts";

interface Scene {
  readonly replicas: number;
  readonly limit: number;
  readonly windowMs: number;
  readonly settings?: string;
  readonly apps: readonly AppCallers[];
  readonly forMs: number;
  /** From then on what happens is measured. */
  readonly fromMs: number;
}

interface Seen {
  readonly used: number;
  readonly of: (app: string) => AppAnswers;
  /** The part of the calls that were let in and then got no answer. */
  readonly late: number;
}

async function play({ replicas, limit, windowMs, settings, apps, forMs, fromMs }: Scene): Promise<Seen> {
  const gateways = await startReplicas(replicas, `${limit}/${windowMs}ms`, settings);
  const startedAt = Date.now();
  const answers = await askForAWhile(
    gateways.map(({ url }) => url),
    apps,
    { forMs, countFromMs: fromMs },
  );
  const arrivals = gateways[0]?.sandbox.requests().map(({ at }) => at) ?? [];
  expect(mostWithin(arrivals, windowMs)).toBeLessThanOrEqual(limit);
  const counted = arrivals.filter((at) => at >= startedAt + fromMs && at < startedAt + forMs);
  const all = [...answers.values()];
  // A refusal at once takes no longer, even on a busy machine.
  const late = all.flatMap(({ refusedMs }) => refusedMs.filter((ms) => ms > 1_000)).length;
  const answered = all.flatMap(({ answeredMs }) => answeredMs).length;
  return {
    used: counted.length / ((limit * (forMs - fromMs)) / windowMs),
    of: (app) => answers.get(app) ?? { answeredMs: [], refusedMs: [] },
    late: late / (answered + late),
  };
}

async function startReplicas(count: number, budget: string, settings = ""): Promise<TestGateway[]> {
  const env: Record<string, string> = { BUDGET: budget };
  if (count > 1) {
    const redis = await startRedis();
    onTestFinished(() => redis.close());
    Object.assign(env, { REDIS_URL: `redis://127.0.0.1:${redis.port}`, REPLICAS: String(count) });
  }
  const gateways: TestGateway[] = [];
  for (let index = 0; index < count; index++) {
    const upstream = gateways[0] && { UPSTREAM_URL: gateways[0].sandboxUrl };
    gateways.push(await startGateway({ env: { ...env, ...upstream }, settings }));
  }
  const modeOf = async ({ adminUrl }: TestGateway): Promise<unknown> =>
    Object((await ask(`${adminUrl}/budget`)).json()).api.mode;
  for (const gateway of gateways) await expect.poll(() => modeOf(gateway)).not.toBe("joining");
  return gateways;
}

const LONG_MS = 600_000;
/** A busy machine may delay Redis. No gateway may go on without it because of that. */
const PATIENT = "redis: { timeout: 10s }";
const HOG = { app: "hog", callers: 150, thinkMs: 0 };
const QUIET = { app: "quiet", callers: 1, thinkMs: 1_000 };

describe("a quiet app beside a greedy app with 150 callers at 20 per second", () => {
  it.each([
    { replicas: 1, most: 400, settings: "" },
    { replicas: 1, most: 400, settings: "apps: [{ id: quiet }, { id: hog }]" },
    { replicas: 3, most: 1_000, settings: PATIENT },
  ])(
    "waits at most $most ms at p95 on $replicas replicas, settings $settings",
    async ({ replicas, most, settings }) => {
      const apps = [HOG, QUIET];
      const seen = await play({
        replicas,
        settings,
        apps,
        limit: 100,
        windowMs: 5_000,
        forMs: 60_000,
        fromMs: 15_000,
      });
      expect(seen.of("quiet").answeredMs.length).toBeGreaterThan(30);
      expect(percentile(seen.of("quiet").answeredMs, 0.95)).toBeLessThanOrEqual(most);
      expect(seen.of("quiet").refusedMs).toEqual([]);
      // The greedy app leaves a tenth.
      expect(seen.used).toBeGreaterThanOrEqual(0.8);
      expect(seen.late).toBeLessThanOrEqual(0.03);
    },
    LONG_MS,
  );
});

describe("on 60/1m, an app that asks once a second beside 30 loops of another", () => {
  it("gets about half of the answers", { timeout: LONG_MS }, async () => {
    const apps = [{ ...HOG, callers: 30 }, QUIET];
    const seen = await play({
      replicas: 1,
      limit: 60,
      windowMs: 60_000,
      apps,
      // Long enough that one late refusal is less than 1 % of the calls.
      forMs: 420_000,
      fromMs: 120_000,
    });
    const [hog, quiet] = ["hog", "quiet"].map((app) => seen.of(app).answeredMs.length);
    expect(quiet).toBeGreaterThanOrEqual(0.8 * (hog ?? 0));
    // The greedy app leaves a tenth.
    expect(seen.used).toBeGreaterThanOrEqual(0.8);
    expect(seen.late).toBeLessThanOrEqual(0.03);
  });
});
