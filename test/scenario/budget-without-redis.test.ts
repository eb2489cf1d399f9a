/** A gateway that shares its budget through Redis, while its Redis is away. */
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { redisForTest } from "../support/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { problemCode } from "../support/reply.ts";
import { budgetAt, expectShared } from "../support/two-gateways.ts";

/** A busy machine may delay Redis. The outage is noticed after this time, too. */
const PATIENT = "redis: { timeout: 2s }\n";

describe("a gateway without its Redis", () => {
  it("soon refuses callers whose wait has become longer than their deadline", async () => {
    const own = await redisForTest();
    const gateway = await startGateway({
      env: { REDIS_URL: `redis://127.0.0.1:${own.port}`, BUDGET: "6/1m", BUDGET_MAX_WAIT: "3m" },
      settings: PATIENT,
    });
    await expectShared(gateway.adminUrl);
    for (const q of ["a", "b", "c", "d", "e", "f"])
      expect((await gateway.get(`/areas?q=${q}`)).status).toBe(200);
    const hangUp = new AbortController();
    const refused: string[] = [];
    const waiting = Array.from({ length: 12 }, async (_, index) => {
      const reply = await gateway.get(`/areas?q=${index}`, { signal: hangUp.signal });
      refused.push(problemCode(reply));
    });
    // With Redis, six are sent after one minute and six after two.
    await expect.poll(async () => (await budgetAt(gateway.adminUrl)).queue.interactive).toBe(12);
    await own.kill();
    // Without it, one is sent each minute.
    await expect.poll(() => refused.length).toBeGreaterThanOrEqual(4);
    expect(new Set(refused)).toEqual(new Set(["budget-unavailable"]));
    hangUp.abort();
    await Promise.allSettled(waiting);
  });

  it("names Redis and seconds to every caller that it refuses, never a window of a day", async () => {
    const own = await redisForTest();
    const gateway = await startGateway({
      env: {
        REDIS_URL: `redis://127.0.0.1:${own.port}`,
        BUDGET: "12/1d",
        REPLICAS: "1",
        BUDGET_MAX_WAIT: "3m",
      },
      settings: `${PATIENT}budget: { degradedReserve: 0.5, concurrency: 2 }\napps: [{ id: web }, { id: job, perDay: 9 }]`,
    });
    await expectShared(gateway.adminUrl);
    await own.kill();
    await gateway.logged("Outage began", '"what":"Redis"');
    await expect.poll(async () => (await budgetAt(gateway.adminUrl)).mode).toBe("degraded");
    // Two of the own purse's six calls are under way. Those that wait for them need the other four.
    gateway.sandbox.hold();
    const statuses: number[] = [];
    const asked = Array.from({ length: 12 }, async (_, n) => {
      const headers = { "x-app-id": n % 2 === 0 ? "web" : "job" };
      const reply = await gateway.get(`/areas?q=${n}`, { headers });
      statuses.push(reply.status);
      return reply;
    });
    await gateway.sandbox.waitForRequests(2);
    await expect.poll(() => statuses.length).toBeGreaterThan(0);
    gateway.sandbox.release();
    const refused = (await Promise.all(asked)).filter(({ status }) => status !== 200);
    expect(refused.length).toBe(6);
    for (const app of ["web", "job"])
      refused.push(await gateway.get("/areas?q=later", { headers: { "x-app-id": app } }));
    for (const reply of refused) {
      expect([reply.status, problemCode(reply)]).toEqual([503, "budget-unavailable"]);
      expect(Number(reply.headers["retry-after"])).toBeLessThanOrEqual(3);
    }
  });

  it("spends its own purse, and shares the budget again when Redis is back", async () => {
    const own = await redisForTest();
    const gateway = await startGateway({
      env: { REDIS_URL: `redis://127.0.0.1:${own.port}`, BUDGET: "12/5s,40/1h", REPLICAS: "1" },
      settings: "budget: { degradedReserve: 0.5 }",
    });
    await expectShared(gateway.adminUrl);
    for (const name of ["gateway_budget_known", "gateway_budget_slot"])
      await expect.poll(async () => await gateway.metric(name)).toBe(1);
    for (const q of ["a", "b"]) expect((await gateway.get(`/areas?q=${q}`)).status).toBe(200);
    await own.kill();
    await expect.poll(async () => (await budgetAt(gateway.adminUrl)).mode).toBe("degraded");
    expect(await gateway.metric("gateway_budget_known")).toBe(0);
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        gateway.get(`/areas?q=off-${n}`, { headers: { "x-request-deadline-ms": "2000" } }),
      ),
    );
    const alone = replies.map(({ status }) => status);
    const sent = 2 + alone.filter((status) => status === 200).length;
    expect(sent).toBeGreaterThan(2);
    expect(alone).toContain(503);
    await own.restart();
    await expectShared(gateway.adminUrl);
    // Redis is empty after its restart. The gateway tells it what it knows.
    await expect
      .poll(async () => (await budgetAt(gateway.adminUrl)).windows[1]?.spent)
      .toBeGreaterThanOrEqual(sent);
    expect(gateway.sandbox.requests()).toHaveLength(sent);
    // The ledger has the calls of the outage under the limit of that time, also after the limit was lowered.
    const later = await startGateway({
      env: { REDIS_URL: `redis://127.0.0.1:${own.port}`, BUDGET: "2/1h", UPSTREAM_URL: gateway.sandboxUrl },
    });
    const hour = async (): Promise<{ maximum: number }> =>
      Object((await ask(`${later.adminUrl}/usage?from=-1h`)).json()).windows[0];
    await expect.poll(async () => (await hour()).maximum).toBeGreaterThan(2);
    expect(await hour()).toMatchObject({ limit: 2, kept: true, limits: [40] });
  });
});
