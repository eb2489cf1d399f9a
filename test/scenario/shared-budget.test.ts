/** Several gateways share one budget through Redis. */
import { describe, expect, it } from "vitest";

import { problemCode } from "../support/ask.ts";
import { expectShared, startShared, startTwo, type TestGateway } from "../support/gateway.ts";
import { redisForFile } from "../support/redis-backend.ts";
import { redisForTest } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const APPS = "apps: [{ id: web }, { id: batch }]";
const redis = redisForFile();
const startSharing = (env: Record<string, string>, settings = APPS) =>
  startTwo({ redis: redis(), env, settings });

describe("two gateways on one Redis", () => {
  it("spend one budget, and each shows what both have spent", async () => {
    const [first, second] = await startSharing({ BUDGET: "4/1h" }, "");
    for (const [index, gateway] of [first, second, first, second].entries())
      expect((await gateway.get(`/areas?q=${index}`)).status).toBe(200);
    for (const gateway of [first, second]) {
      await expect.poll(async () => (await gateway.budget()).windows[0]?.spent).toBe(4);
      const refused = await gateway.get("/areas?q=more");
      expect([refused.status, problemCode(refused)]).toEqual([503, "temporary-reduced-capacity"]);
      expect(Number(refused.headers["retry-after"])).toBeGreaterThan(3_500);
    }
    expect(first.sandbox.requests()).toHaveLength(4);
  });

  it("show no more calls than the limit while Redis still counts those that an own purse has back", async () => {
    const [first] = await startSharing({ BUDGET: "40/1s" }, "");
    for (let question = 0; question < 46; question++)
      await expect.poll(async () => (await first.get(`/areas?q=${question}`)).status).toBe(200);
    await expect.poll(async () => (await first.shows("/usage")).totals.sends).toBe(46);
    expect((await first.budget()).windows[0]?.spent).toBeLessThanOrEqual(40);
  });

  it("refuse an app that has used up its share at once, and still serve others", async () => {
    const settings = "apps: [{ id: web, weight: 2 }, { id: batch }]";
    const [first, second] = await startSharing({ BUDGET: "16/1h" }, settings);
    const from = (app: string) => ({ headers: { "x-app-id": app } });
    expect((await first.get("/areas?q=a", from("somebody"))).status).toBe(200);
    let questions = 0;
    const askAsWeb = (gateway: TestGateway) => gateway.get(`/areas?q=${questions++}`, from("web"));
    // Two thirds are its share.
    for (let round = 0; round < 5; round++)
      for (const gateway of [first, second]) expect((await askAsWeb(gateway)).status).toBe(200);
    for (const gateway of [first, second]) {
      // Each replica lends it one of what others leave; the next one only later.
      await expect
        .poll(() => askAsWeb(gateway).then(() => gateway.shows("/quote?url=/areas?q=e&app=web")), {
          interval: 300,
        })
        .toMatchObject({ refusal: "quota-exceeded" });
      const refused = await askAsWeb(gateway);
      expect([refused.status, problemCode(refused)]).toEqual([429, "quota-exceeded"]);
      expect(Number(refused.headers["retry-after"])).toBeGreaterThan(100);
    }
    expect((await second.get("/areas?q=d", from("batch"))).status).toBe(200);
  });

  it("refuse the rest of a burst at once and not at the deadline", async () => {
    const env = { BUDGET: "60/1h", BUDGET_MAX_WAIT: "30s" };
    const [first] = await startSharing(env, "apps: [{ id: web, weight: 4 }, { id: batch }]");
    expect((await first.get("/areas?q=a", { headers: { "x-app-id": "web" } })).status).toBe(200);
    const askMany = (q: string) =>
      Promise.all(Array.from({ length: 30 }, (_, index) => first.get(`/areas?q=${q}${index}`)));
    // The first half is more than the app's share, so the share is the reason for refusals in the second half.
    const replies = [...(await askMany("first")), ...(await askMany("second"))];
    const refused = replies.filter(({ status }) => status !== 200);
    expect(refused.map(problemCode)).toContain("quota-exceeded");
    // It borrows what others leave, but for a tenth.
    expect(replies.length - refused.length).toBeGreaterThan(40);
    expect(replies.length - refused.length).toBeLessThanOrEqual(60 - 1 - 6);
    for (const app of ["other", "web"])
      expect(await first.metric(`gateway_refused_total{app="${app}",reason="deadline"}`)).toBe(0);
  });

  it("count the requests that wait at the other one", { timeout: 120_000 }, async () => {
    // Each window is longer by two timeouts.
    const settings = "redis: { timeout: 2s }";
    const [first, second] = await startSharing({ BUDGET: "2/1m", BUDGET_MAX_WAIT: "5m" }, settings);
    for (const gateway of [first, second])
      expect((await gateway.get(`/areas?q=${gateway.port}`)).status).toBe(200);
    const hangUp = new AbortController();
    const waiting = ["a", "b", "c"].map((q) => first.get(`/areas?q=${q}`, { signal: hangUp.signal }));
    const quoted = async () => (await second.shows("/quote?url=/areas?q=d")).predictedWaitMs;
    // Two of them are sent when the window has passed, the third one and this one a window later.
    await expect.poll(quoted).toBeGreaterThan(100_000);
    const refused = await second.get("/areas?q=d", { headers: { "x-request-deadline-ms": "80000" } });
    expect([refused.status, problemCode(refused)]).toEqual([503, "temporary-reduced-capacity"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(80);
    hangUp.abort();
    await Promise.allSettled(waiting);
    await expect.poll(quoted).toBeLessThan(65_000);
  });

  it("both count that Redis lost data of the budget, and do not say that limits were kept before", async () => {
    const gateways = await startSharing({});
    const lost = async (): Promise<number[]> =>
      await Promise.all(gateways.map(({ metric }) => metric("gateway_budget_data_lost_total")));
    const kept = async () => (await gateways[0].shows("/usage?from=-1h")).windows[0].kept;
    expect([await lost(), await kept()]).toEqual([[0, 0], true]);
    await redis().command("FLUSHALL");
    await expect.poll(async () => [await lost(), await kept()]).toEqual([[1, 1], "unknown"]);
  });

  it("show which of them has no slot, because there are more than REPLICAS", async () => {
    const gateways = await startSharing({ REPLICAS: "1" });
    const slots = await Promise.all(gateways.map(({ metric }) => metric("gateway_budget_slot")));
    expect(slots.toSorted((a, b) => a - b)).toEqual([0, 1]);
  });

  it("both stop asking the upstream when one of them gets a 429", async () => {
    const [first, second] = await startSharing({});
    first.sandbox.faults.add({ status: 429, retryAfter: "60", times: 1 });
    expect(problemCode(await first.get("/areas?q=a"))).toBe("upstream-unavailable");
    await expect.poll(() => second.metric('gateway_circuit_state{circuit="api/all"}')).toBe(2);
    const refused = await second.get("/areas?q=b");
    expect(problemCode(refused)).toBe("upstream-unavailable");
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(50);
    expect(first.sandbox.requests()).toHaveLength(1);
  });

  it("keep one ledger, which a later gateway reads", async () => {
    const [first, second] = await startSharing({ BUDGET: "100/1h" });
    const headers = { "x-app-id": "web" };
    for (const q of ["a", "b", "c"]) await first.get(`/areas?q=${q}`, { headers });
    first.sandbox.faults.add({ status: 400, times: 1 });
    await second.get("/areas?q=d", { headers: { "x-app-id": "batch" } });
    const usage = ({ shows }: TestGateway): Promise<unknown> => shows("/usage?from=1970-01-01&by=app");
    const expected = {
      rows: [
        { app: "batch", sends: 1, "4xx": 1, uncompleted: 0 },
        { app: "web", sends: 3, "2xx": 3, uncompleted: 0 },
      ],
      windows: [{ name: "1h", limit: 100, maximum: 4, kept: true }, { name: "images/1m" }],
    };
    await expect.poll(() => usage(first)).toMatchObject(expected);
    expect(await usage(second)).toMatchObject(expected);
    await expect.poll(async () => (await second.budget()).windows[0]?.byApp).toEqual({ web: 3, batch: 1 });

    const third = await startShared({
      redis: redis(),
      beside: first,
      env: { BUDGET: "3/1h" },
      settings: APPS,
    });
    expect(await usage(third)).toMatchObject({ rows: [{ sends: 1 }, { sends: 3 }] });
    // Four calls were allowed under the limit of the first two gateways.
    expect(await usage(third)).toMatchObject({
      windows: [{ name: "1h", limit: 3, maximum: 4, kept: true, limits: [100] }, { kept: true }],
    });
    // What the others spent before it started counts.
    expect((await third.get("/areas?q=new")).status).toBe(503);
  });
});

it("two gateways 70 ms away from their Redis share the budget without any setting, and go on when it moves 200 ms away", async () => {
  const proxy = await startTcpProxy((await redisForTest()).port);
  proxy.delay(70);
  const options = { redis: proxy, env: { BUDGET: "100/1h" }, settings: "redis: {}" };
  const [first, second] = await startTwo(options);
  let asked = 0;
  for (const delayMs of [70, 200]) {
    proxy.delay(delayMs);
    for (const gateway of [first, second, first, second]) {
      await expectShared(gateway);
      expect((await gateway.get(`/areas?q=${asked++}`)).status).toBe(200);
    }
  }
  for (const { budget } of [first, second])
    await expect.poll(async () => (await budget()).windows[0]?.spent).toBe(asked);
});
