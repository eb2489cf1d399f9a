/** Callers of several apps who ask the same while the call is still in the queue. */
import { describe, expect, it, onTestFinished } from "vitest";

import { ask, type Reply } from "../support/ask.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { startRedis } from "../support/redis.ts";
import { cacheStatus } from "../support/reply.ts";

/** The upstream may take its time: what passes is the wait in the queue. */
const SETTINGS = `upstream:
  { connectTimeout: 1h, headerTimeout: 1h, bodyTimeout: 1h, totalTimeout: 1h, retryDelay: 1ms }
apps: [{ id: hog }, { id: quiet }, { id: third }]`;

interface Timed {
  readonly gateway: TestGateway;
  readonly clock: FakeClock;
  readonly get: (app: string, path: string, signal?: AbortSignal) => Promise<Reply>;
}

/** A gateway in whose time nothing happens until the test says so; each of four apps has a quarter of its budget. */
async function startTimed(env: Readonly<Record<string, string>>): Promise<Timed> {
  const clock = createFakeClock();
  const sandbox = { now: clock.now };
  const gateway = await startGateway({ settings: SETTINGS, clock, sandbox, env });
  const get: Timed["get"] = (app, path, signal) =>
    gateway.get(path, { headers: { "x-app-id": app }, ...(signal && { signal }) });
  return { gateway, clock, get };
}

/** A hog that has had its share of the minute, and all that it may borrow for now; its next call waits 6.7 s. */
async function startWithHog(): Promise<Timed> {
  const timed = await startTimed({ BUDGET: "12/1m", BUDGET_MAX_WAIT: "30s" });
  expect((await timed.get("quiet", "/areas?q=before")).status).toBe(200);
  for (const q of ["1", "2", "3", "4"]) expect((await timed.get("hog", `/areas?q=${q}`)).status).toBe(200);
  return timed;
}

/** Resolves once all that was sent before it has been admitted: requests are read in the order they came. */
async function admitted(gateway: TestGateway): Promise<void> {
  await gateway.get("/nowhere");
}

async function spentBy(gateway: TestGateway, app: string): Promise<number | undefined> {
  return await gateway.metric(`gateway_budget_spent_total{app="${app}",cause="miss"}`);
}

async function ledgerOf(gateway: TestGateway): Promise<unknown> {
  return (await ask(`${gateway.adminUrl}/usage?from=-1h&by=app`)).json();
}

describe("a quiet app that asks what a hog is waiting for", () => {
  it("is answered at once, pays for the call, and the hog gets the same answer", async () => {
    const { gateway, clock, get } = await startWithHog();
    const popular = ["a", "b", "c"].map((q) => get("hog", `/areas?q=${q}`));
    await clock.armed(6_667);
    await admitted(gateway);
    expect(gateway.sandbox.requests()).toHaveLength(5);

    // The last in the hog's queue, and no time passes.
    const reply = await get("quiet", "/areas?q=c");
    expect(reply.status).toBe(200);
    expect(cacheStatus(reply)).toMatchObject({ fwd: "miss", collapsed: true });
    expect((await popular[2])?.body).toEqual(reply.body);
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "quiet")]).toEqual([4, 2]);
    expect(await gateway.metric('gateway_throttle_queue_length{priority="interactive"}')).toBe(2);

    // The hog is served as before, and once for each question.
    await clock.advance(6_667);
    expect((await popular[0])?.status).toBe(200);
    await clock.advance(6_667);
    expect((await popular[1])?.status).toBe(200);
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "quiet")]).toEqual([6, 2]);
    expect(gateway.sandbox.requests()).toHaveLength(8);
    await clock.advance(1);
    expect(await ledgerOf(gateway)).toMatchObject({
      rows: [
        { app: "hog", sends: 6 },
        { app: "quiet", sends: 2 },
      ],
    });
  });

  it("is answered at once where the hog's callers leave meanwhile, however many they were", async () => {
    const { gateway, clock, get } = await startWithHog();
    const hangUp = new AbortController();
    const gone = Array.from({ length: 20 }, () => get("hog", "/areas?q=a", hangUp.signal));
    const settled = Promise.allSettled(gone);
    await clock.armed(6_667);
    await admitted(gateway);
    const replies = Array.from({ length: 20 }, () => get("quiet", "/areas?q=a"));
    hangUp.abort();
    for (const reply of replies) expect((await reply).status).toBe(200);
    await settled;
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "quiet")]).toEqual([4, 2]);
  });

  it("pays for the second attempt, too, where that is its turn", async () => {
    const { gateway, clock, get } = await startWithHog();
    const asked = get("hog", "/areas?q=a");
    await clock.armed(6_667);
    gateway.sandbox.faults.add({ status: 500, times: 1 });
    const joined = get("quiet", "/areas?q=a");
    const sent = async (): Promise<number> => {
      await clock.advance(2);
      return gateway.sandbox.requests().length;
    };
    await expect.poll(sent).toBe(7);
    expect([(await asked).status, (await joined).status]).toEqual([200, 200]);
    const retries = 'gateway_budget_spent_total{app="quiet",cause="retry"}';
    expect([await spentBy(gateway, "quiet"), await gateway.metric(retries)]).toEqual([2, 1]);
    expect(await spentBy(gateway, "hog")).toBe(4);
  });

  it("that is one of those that are not registered is answered at once, and they pay together", async () => {
    const { gateway, clock, get } = await startWithHog();
    const asked = get("hog", "/areas?q=a");
    await clock.armed(6_667);
    expect((await get("somebody", "/areas?q=a")).status).toBe(200);
    expect((await asked).status).toBe(200);
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "other")]).toEqual([4, 1]);
  });
});

describe("with a budget that replicas share", () => {
  it("the app whose turn comes first pays, too, and the ledger says so", async () => {
    const redis = await startRedis();
    onTestFinished(redis.close);
    const gateway = await startGateway({
      settings: SETTINGS,
      env: {
        REDIS_URL: `redis://127.0.0.1:${redis.port}`,
        REPLICAS: "1",
        BUDGET: "12/1h",
        BUDGET_MAX_WAIT: "20m",
      },
    });
    const get = (app: string, path: string): Promise<Reply> =>
      gateway.get(path, { headers: { "x-app-id": app } });
    const budget = async (): Promise<unknown> => (await ask(`${gateway.adminUrl}/budget`)).json();
    await expect.poll(budget).toMatchObject({ api: { mode: "shared" } });
    expect((await get("quiet", "/areas?q=before")).status).toBe(200);
    for (const q of ["1", "2", "3", "4"]) expect((await get("hog", `/areas?q=${q}`)).status).toBe(200);
    const asked = get("hog", "/areas?q=a");
    await expect.poll(budget).toMatchObject({ api: { queue: { interactive: 1 } } });
    const reply = await get("quiet", "/areas?q=a");
    expect([reply.status, (await asked).status]).toEqual([200, 200]);
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "quiet")]).toEqual([4, 2]);
    await expect
      .poll(() => ledgerOf(gateway))
      .toMatchObject({
        rows: [
          { app: "hog", sends: 4, "2xx": 4 },
          { app: "quiet", sends: 2, "2xx": 2 },
        ],
      });
    await expect
      .poll(budget)
      .toMatchObject({ api: { queue: { interactive: 0 }, windows: [{ byApp: { hog: 4, quiet: 2 } }] } });
  });
});

describe("a call that several apps wait for", () => {
  it("is charged to the app that started it where its turn comes no later", async () => {
    const { gateway, clock, get } = await startTimed({ BUDGET: "1/5s" });
    expect((await get("quiet", "/areas?q=before")).status).toBe(200);
    expect(await spentBy(gateway, "quiet")).toBe(1);
    const asked = get("quiet", "/areas?q=a");
    await clock.armed(5_001);
    // Has had nothing yet: in the fair order it would come first.
    const joined = get("hog", "/areas?q=a");
    await admitted(gateway);
    await clock.advance(5_001);
    for (const reply of [asked, joined]) expect((await reply).status).toBe(200);
    expect([await spentBy(gateway, "quiet"), await spentBy(gateway, "hog")]).toEqual([2, 0]);
  });
});
