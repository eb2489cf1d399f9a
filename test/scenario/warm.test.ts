/**
 * Answers of the warm list: they are fetched at the start, and again before they expire.
 */
import { describe, expect, it, onTestFinished } from "vitest";

import { ask } from "../support/ask.ts";
import { cacheStatus } from "../support/reply.ts";
import { freePorts } from "../support/ports.ts";
import { startRedis } from "../support/redis.ts";
import { temporaryDirectory } from "../support/files.ts";
import {
  AGAIN_MS,
  AREAS,
  attended,
  BEGINS_MS,
  LIST,
  NACKA,
  startWarm,
  STOCKHOLM,
  targets,
  warmStates,
} from "../support/warm.ts";
import { startTwo } from "../support/two-gateways.ts";

describe("a listed answer", () => {
  it("is fetched at the start: the first request is a hit", async () => {
    const { gateway, clock } = await startWarm(LIST);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    expect(gateway.sandbox.counts().byResource).toMatchObject({ listings: 2, areas: 1 });
    for (const path of [NACKA, STOCKHOLM, AREAS]) {
      const reply = await gateway.get(path);
      expect([path, reply.status, cacheStatus(reply)]).toEqual([
        path,
        200,
        expect.objectContaining({ hit: true, detail: "memory" }),
      ]);
    }
    expect(gateway.sandbox.requests()).toHaveLength(3);
  });

  it("is refreshed before it expires, so that callers never get a stale one", async () => {
    const { gateway, clock } = await startWarm(`warm: [{ url: "${NACKA}" }]`);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    for (const round of [1, 2, 3]) {
      await clock.advance(AGAIN_MS - 1);
      expect(await warmStates(gateway)).toMatchObject([{ dueInSeconds: 1, last: "refreshed" }]);
      expect(gateway.sandbox.requests()).toHaveLength(round);
      gateway.sandbox.revise();
      await clock.advance(1);
      await gateway.sandbox.waitForRequests(round + 1);
      expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: 270 }]);
      expect(cacheStatus(await gateway.get(NACKA))).toMatchObject({
        hit: true,
        ttl: "300",
        detail: "memory",
      });
    }
    expect(await gateway.metric('gateway_refreshes_total{resource="listings",change="changed"}')).toBe(3);
    expect(await gateway.metric('gateway_warm_fetches_total{resource="listings",result="refreshed"}')).toBe(
      4,
    );
  });

  it.each([
    ["more often than it expires", "2m", 120],
    ["less often than it expires", "10m", 600],
  ])("is fetched as often as the list says: %s", async (_name, every, seconds) => {
    const { gateway, clock } = await startWarm(`warm: [{ url: "${NACKA}", every: ${every} }]`);
    await clock.advance(BEGINS_MS);
    expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: seconds }]);
    await clock.advance(seconds * 1_000 - 1);
    expect(await warmStates(gateway)).toMatchObject([{ dueInSeconds: 1 }]);
    expect(gateway.sandbox.requests()).toHaveLength(1);
    await clock.advance(1);
    await gateway.sandbox.waitForRequests(2);
    expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: seconds }]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("is fetched one after the other, beside callers' requests", async () => {
    const list = `warm: [{ url: "${NACKA}" }, { url: "${STOCKHOLM}" }, { url: "/listings?areaId=2&limit=5" }]`;
    const { gateway, clock } = await startWarm(list);
    gateway.sandbox.hold("/listings");
    await clock.advance(BEGINS_MS);
    for (const nth of [1, 2, 3]) {
      await expect.poll(() => clock.advance(0).then(gateway.sandbox.waiting)).toBe(1);
      expect((await gateway.get(`/areas?q=caller-${nth}`)).status).toBe(200);
      expect(gateway.sandbox.counts().byResource).toMatchObject({ listings: nth });
      gateway.sandbox.release(1);
    }
    await attended({ gateway, clock });
  });

  it("is still fetched if the upstream is slow, without a failure", async () => {
    const { gateway, clock } = await startWarm(`warm: [{ url: "${NACKA}" }]`);
    gateway.sandbox.hold("/listings");
    await clock.advance(BEGINS_MS);
    await expect.poll(() => clock.advance(0).then(gateway.sandbox.waiting)).toBe(1);
    // Longer than it would have waited for a place.
    await clock.advance(3_000);
    expect(await warmStates(gateway)).toMatchObject([{ last: null }]);
    gateway.sandbox.release();
    expect(await attended({ gateway, clock })).toMatchObject([{ last: "refreshed", dueInSeconds: 270 }]);
    expect(cacheStatus(await gateway.get(NACKA))).toMatchObject({ hit: true });
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("is charged as warm to the app in the list", async () => {
    const list = `warm: [{ url: "${NACKA}", app: web }, { url: "${STOCKHOLM}" }]`;
    const { gateway, clock } = await startWarm(list, { settings: "apps: [{ id: web }]" });
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    const spent = (app: string, cause: string): Promise<number> =>
      gateway.metric(`gateway_budget_spent_total{app="${app}",cause="${cause}"}`);
    expect([await spent("web", "warm"), await spent("other", "warm")]).toEqual([1, 1]);
    expect([await spent("web", "miss"), await spent("other", "miss")]).toEqual([0, 0]);
  });

  it("is cut from its block, which is kept warm, and so every page of the block", async () => {
    const { gateway, clock } = await startWarm('warm: [{ url: "/listings?areaId=76&limit=5" }]');
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    expect(cacheStatus(await gateway.get("/listings?areaId=76&limit=10&offset=5"))).toMatchObject({
      hit: true,
    });
    expect(targets(gateway)).toEqual(["/listings?areaId=76&limit=500&offset=0"]);
  });

  it("is fetched in the format in the list", async () => {
    const { gateway, clock } = await startWarm(`warm: [{ url: "${NACKA}", format: v2 }]`);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    const accept = "application/vnd.propertyservice-v2+json";
    expect(gateway.sandbox.requests()).toMatchObject([{ accept }]);
    expect(cacheStatus(await gateway.get(NACKA, { headers: { accept } }))).toMatchObject({ hit: true });
    expect(cacheStatus(await gateway.get(NACKA))).toMatchObject({ fwd: "miss" });
  });

  it("never uses the reserve, and is fetched as soon as another permit is free", async () => {
    const { gateway, clock } = await startWarm(LIST, {
      env: { BUDGET: "10/1m" },
      // The clock moves while the answer is fetched.
      settings:
        "budget: { reserve: 0.8 }\nupstream: { connectTimeout: 1h, headerTimeout: 1h, totalTimeout: 1h }",
    });
    await clock.advance(BEGINS_MS);
    const states = await attended({ gateway, clock });
    expect(states.map(({ last }) => last)).toEqual(["refreshed", "refreshed", "refused"]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
    expect(await gateway.metric('gateway_warm_fetches_total{resource="areas",result="refused"}')).toBe(1);
    for (let caller = 0; caller < 8; caller++)
      expect((await gateway.get(`/areas?q=caller-${caller}`)).status).toBe(200);
    gateway.sandbox.clearRequests();
    const startedAt = clock.now();
    while (gateway.sandbox.requests().length === 0 && clock.now() < startedAt + 120_000) {
      await clock.advance(1_000);
      // What waits for a place gets it, or gives up, only as time passes.
      const flights = (): Promise<number> => clock.advance(100).then(() => gateway.metric("gateway_flights"));
      await expect.poll(flights, { interval: 20 }).toBe(0);
    }
    expect(targets(gateway)).toEqual(["/areas?q=Nacka"]);
    expect(clock.now() - startedAt).toBeGreaterThanOrEqual(59_000);
    expect(cacheStatus(await gateway.get(AREAS))).toMatchObject({ hit: true });
  });

  it("that fails is retried after a pause, and the others are fetched", async () => {
    const { gateway, clock } = await startWarm(LIST, { settings: "upstream: { retryDelay: 0ms }" });
    gateway.sandbox.faults.add({ wrongJson: true, pathPrefix: "/areas" });
    await clock.advance(BEGINS_MS);
    const states = await attended({ gateway, clock });
    expect(states.map(({ last }) => last)).toEqual(["refreshed", "refreshed", "failed"]);
    const dueInSeconds = states.at(-1)?.dueInSeconds ?? 0;
    expect([dueInSeconds >= 30, dueInSeconds <= 90]).toEqual([true, true]);
    gateway.sandbox.faults.clear();
    await clock.advance(dueInSeconds * 1_000);
    await expect.poll(() => warmStates(gateway)).toMatchObject([{}, {}, { last: "refreshed" }]);
    expect(cacheStatus(await gateway.get(AREAS))).toMatchObject({ hit: true });
  });

  it("is fetched later if a caller's request has refreshed it", async () => {
    const { gateway, clock } = await startWarm(`warm: [{ url: "${NACKA}" }]`, {
      settings: "apps: [{ id: desk, mayForceRefresh: true }]",
    });
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    await clock.advance(200_000);
    await gateway.get(NACKA, { headers: { "cache-control": "no-cache", "x-app-id": "desk" } });
    expect(gateway.sandbox.requests()).toHaveLength(2);
    await clock.advance(AGAIN_MS - 200_000);
    expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: 200 }]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
    await clock.advance(200_000);
    await gateway.sandbox.waitForRequests(3);
    await attended({ gateway, clock });
  });
});

describe("an answer that was already fetched", () => {
  it("before a restart is not fetched until it is due", async () => {
    const env = { DATA_DIR: temporaryDirectory() };
    const [upstreamPort] = await freePorts(1);
    const options = { env, ...(upstreamPort !== undefined && { upstreamPort }) };
    const before = await startWarm(LIST, options);
    await before.clock.advance(BEGINS_MS);
    await attended(before);
    await before.gateway.stop();

    const soon = await startWarm(LIST, options, before.clock.now() + 100_000);
    await soon.clock.advance(BEGINS_MS);
    const states = await attended(soon);
    expect(states.map(({ last }) => last)).toEqual([null, null, null]);
    // The two seconds after the start included.
    expect(states.map(({ dueInSeconds }) => dueInSeconds)).toEqual([168, 168, expect.any(Number)]);
    expect(soon.gateway.sandbox.requests()).toEqual([]);
    expect(cacheStatus(await soon.gateway.get(NACKA))).toMatchObject({ hit: true });
    await soon.gateway.stop();

    const late = await startWarm(LIST, options, before.clock.now() + AGAIN_MS);
    await late.clock.advance(BEGINS_MS);
    await attended(late);
    expect(late.gateway.sandbox.requests().map(({ path }) => path)).toEqual(["/listings", "/listings"]);
  });

  it("in another replica is not fetched again", async () => {
    const redis = await startRedis();
    onTestFinished(redis.close);
    let list = "";
    // Before it has joined the shared budget, a gateway would be refused its fetches.
    const [first, second] = await startTwo(redis, { settings: () => list });
    list = LIST;
    for (const { adminUrl } of [first, second])
      expect((await ask(`${adminUrl}/config/reload`, { method: "POST" })).status).toBe(200);
    for (const gateway of [first, second]) {
      await expect
        .poll(async () => (await warmStates(gateway)).filter(({ dueInSeconds }) => dueInSeconds <= 200))
        .toEqual([]);
    }
    expect(targets(first).toSorted()).toEqual(
      [AREAS, STOCKHOLM, NACKA].map((path) => expect.stringContaining(path)),
    );
    for (const gateway of [first, second]) {
      for (const path of [NACKA, STOCKHOLM, AREAS])
        expect(cacheStatus(await gateway.get(path))).toMatchObject({ hit: true });
    }
    expect(first.sandbox.requests()).toHaveLength(3);
  });
});

describe("operators", () => {
  it("see the state of each listed answer", async () => {
    const list = `warm: [{ url: "/listings/?limit=5&areaId=76", app: web, every: 2m }, { url: "${AREAS}" }]`;
    const { gateway, clock } = await startWarm(list, { settings: "apps: [{ id: web }]" });
    const [first, second] = [
      { query: "listings?areaId=76&limit=5&offset=0", format: "json", app: "web", everySeconds: 120 },
      { query: expect.stringMatching(/^areas\?q=Nacka/), format: "json", app: "other", everySeconds: null },
    ];
    expect(await warmStates(gateway)).toEqual([
      { ...first, dueInSeconds: 0, last: null },
      { ...second, dueInSeconds: 0, last: null },
    ]);
    await clock.advance(BEGINS_MS);
    expect(await attended({ gateway, clock })).toEqual([
      { ...first, dueInSeconds: 120, last: "refreshed" },
      { ...second, dueInSeconds: 86_400 * 0.9, last: "refreshed" },
    ]);
  });
});
