/** A gateway that shares its budget through Redis, while its Redis is away. */
import { describe, expect, it } from "vitest";

import { problemCode } from "../support/ask.ts";
import { redisForTest } from "../support/redis.ts";
import { expectShared, startGateway, startShared } from "../support/gateway.ts";

/** A busy machine may delay Redis. The outage is noticed after this time, too. */
const PATIENT = "redis: { timeout: 2s }\n";

describe("a gateway without its Redis", () => {
  it.each(["dies", "loses its data"])("soon refuses callers that wait when it %s", async (how) => {
    const redis = await redisForTest();
    // Two replicas tell each other what waits.
    const env = { BUDGET: "6/1m", BUDGET_MAX_WAIT: "3m", REPLICAS: "2" };
    const gateway = await startShared({ redis, env, settings: PATIENT });
    for (const q of "abcdef") expect((await gateway.get(`/areas?q=${q}`)).status).toBe(200);
    const hangUp = new AbortController();
    const refused: string[] = [];
    const waiting = Array.from({ length: 12 }, async (_, index) => {
      const reply = await gateway.get(`/areas?q=${index}`, { signal: hangUp.signal });
      refused.push(problemCode(reply));
    });
    // With Redis, six are sent after one minute and six after two.
    await expect.poll(async () => (await gateway.budget()).queue.interactive).toBe(12);
    await (how === "dies" ? redis.kill() : redis.command("FLUSHALL"));
    await expect.poll(() => refused.length).toBeGreaterThanOrEqual(4);
    expect(new Set(refused)).toEqual(new Set(["budget-unavailable"]));
    hangUp.abort();
    await Promise.allSettled(waiting);
  });

  it("spends its own purse, names Redis and seconds to those that it refuses, and shares again when Redis is back", async () => {
    const redis = await redisForTest();
    const gateway = await startShared({
      redis,
      env: { BUDGET: "100/2s,12/1d", BUDGET_MAX_WAIT: "3m" },
      settings: `redis: {}\nbudget: { degradedReserve: 0.5, concurrency: 2 }\napps: [{ id: web }, { id: job, perDay: 9 }]`,
    });
    const { budget, sandbox } = gateway;
    for (const name of ["gateway_budget_known", "gateway_budget_slot"])
      await expect.poll(async () => await gateway.metric(name)).toBe(1);
    await redis.kill();
    await gateway.logged("Outage began", '"what":"Redis"');
    await expect.poll(async () => (await budget()).mode).toBe("degraded");
    expect(await gateway.metric("gateway_budget_known")).toBe(0);
    // Two of the own purse's six calls are under way. Those that wait for them need the other four.
    sandbox.hold();
    const statuses: number[] = [];
    const asked = Array.from({ length: 12 }, async (_, n) => {
      const headers = { "x-app-id": n % 2 === 0 ? "web" : "job" };
      const reply = await gateway.get(`/areas?q=${n}`, { headers });
      statuses.push(reply.status);
      return reply;
    });
    await sandbox.waitForRequests(2);
    await expect.poll(() => statuses.length).toBeGreaterThan(0);
    sandbox.release();
    const refused = (await Promise.all(asked)).filter(({ status }) => status !== 200);
    expect(refused.length).toBe(6);
    for (const app of ["web", "job"])
      refused.push(await gateway.get("/areas?q=later", { headers: { "x-app-id": app } }));
    expect(await gateway.shows("/quote?url=/areas")).toMatchObject({ refusal: "budget-unavailable" });
    // Never a window of a day.
    for (const reply of refused) {
      expect([reply.status, problemCode(reply)]).toEqual([503, "budget-unavailable"]);
      expect(Number(reply.headers["retry-after"])).toBeLessThanOrEqual(3);
    }
    await redis.restart();
    await expectShared(gateway);
    // Redis is empty after its restart. The gateway tells it what it knows.
    await expect.poll(async () => (await budget()).windows[1]?.spent).toBeGreaterThanOrEqual(6);
    expect(sandbox.requests()).toHaveLength(6);
    // The ledger has the calls of the outage with the limit of that time, also after the limit was lowered. Whether it was kept is
    // unknown, because Redis has lost the calls before.
    const later = await startGateway({ redis, beside: gateway, env: { BUDGET: "100/2s,2/1d" } });
    const day = async (): Promise<unknown> => (await later.shows("/usage?from=-1h")).windows[1];
    await expect.poll(day).toMatchObject({ maximum: 6, limit: 2, kept: "unknown", limits: [12] });
  });
});
