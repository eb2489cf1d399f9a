/**
 * An answer that has just expired is served at once, and refreshed in the background.
 */
import net from "node:net";

import { describe, expect, it } from "vitest";

import { createFakeClock } from "../support/fake-clock.ts";
import { EXACT_PAGES, startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { post } from "../support/ask.ts";
import { cacheStatus } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

/** Fresh for 300 s, and served stale for another 60 s while it is refreshed. */
const PATH = "/listings?areaId=76&limit=5";
const OTHER = "/listings?areaId=1&limit=5";
const TTL_MS = 300_000;
const APPS = "apps: [{ id: web }, { id: desk, mayForceRefresh: true }]";

const from = (app: string): { headers: Record<string, string> } => ({ headers: { "x-app-id": app } });
const UPDATING = { hit: true, detail: "stale-while-revalidate" };

interface Started {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
}

async function start(options: TestGatewayOptions = {}): Promise<Started> {
  const clock = createSteppingClock();
  return { clock, gateway: await startGateway({ clock, sandbox: { now: clock.now }, ...options }) };
}

/** A gateway with a cached answer that has just expired, and its text. */
async function startExpired(options: TestGatewayOptions = {}): Promise<Started & { text: string }> {
  const { gateway, clock } = await start(options);
  const { text } = await gateway.get(PATH);
  clock.pass(TTL_MS);
  gateway.sandbox.revise();
  gateway.sandbox.clearRequests();
  return { gateway, clock, text };
}

/** Resolves when all upstream calls have ended, background refreshes included. */
async function landed(gateway: TestGateway): Promise<void> {
  await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
}

describe("an answer that has just expired", () => {
  it("is refreshed although the caller has hung up", async () => {
    const { gateway, text } = await startExpired();
    gateway.sandbox.hold();
    const socket = net.connect(gateway.port, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.write(`GET ${PATH} HTTP/1.1\r\nHost: gateway\r\n\r\n`);
    await gateway.sandbox.waitForRequests(1);
    socket.destroy();
    gateway.sandbox.release();
    await landed(gateway);
    const next = await gateway.get(PATH);
    expect(next.text).not.toBe(text);
    expect(cacheStatus(next)).toMatchObject({ hit: true, detail: "memory" });
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });
});

describe("a refresh", () => {
  it.each([412, 431])(
    "whose condition the upstream refuses (%i) is sent again without it",
    async (status) => {
      const { gateway, clock } = await start();
      gateway.sandbox.set({ validators: "etag" });
      const { text } = await gateway.get(PATH);
      clock.pass(TTL_MS);
      gateway.sandbox.revise();
      gateway.sandbox.clearRequests();
      gateway.sandbox.faults.add({ status, times: 1 });
      expect(cacheStatus(await gateway.get(PATH))).toMatchObject(UPDATING);
      await gateway.sandbox.waitForRequests(2);
      await landed(gateway);
      expect(gateway.sandbox.requests()).toMatchObject([
        { conditional: true, status },
        { conditional: false },
      ]);
      const next = await gateway.get(PATH);
      expect(cacheStatus(next)).toMatchObject({ hit: true });
      expect(next.text).not.toBe(text);
    },
  );

  it("is counted as a refresh, and charged to the app that asked", async () => {
    const { gateway } = await startExpired({ settings: APPS });
    await gateway.get(PATH, from("web"));
    await landed(gateway);
    const spent = (app: string, cause: string): Promise<number> =>
      gateway.metric(`gateway_budget_spent_total{app="${app}",cause="${cause}"}`);
    expect(await spent("web", "refresh")).toBe(1);
    expect(await spent("web", "miss")).toBe(0);
    expect(await spent("other", "miss")).toBe(1);
    expect(await spent("other", "refresh")).toBe(0);
    expect(await gateway.metric('gateway_budget_remaining{window="1m"}')).toBe(1_000_000 - 1);
  });

  it("forced by a caller is charged as forced, and one without a change is counted as unchanged", async () => {
    const { gateway, clock } = await start({ settings: APPS });
    gateway.sandbox.set({ validators: "etag" });
    await gateway.get(PATH);
    clock.pass(60_000);
    const headers = { ...from("desk").headers, "cache-control": "no-cache" };
    expect(cacheStatus(await gateway.get(PATH, { headers }))).toMatchObject({ fwd: "request" });
    expect(await gateway.metric('gateway_budget_spent_total{app="desk",cause="forced"}')).toBe(1);
    const change = 'gateway_refreshes_total{resource="listings",change="not-modified"}';
    expect(await gateway.metric(change)).toBe(1);
  });

  it.each([
    ["goes out where the budget has a place besides the reserve", 0.8, 1],
    ["never takes a place of the reserve, which is there for callers", 0.9, 0],
  ])("%s", async (_name, reserve, refreshes) => {
    const { gateway, clock, text } = await startExpired({
      env: { BUDGET: "10/1h" },
      settings: `budget: { reserve: ${reserve} }`,
    });
    for (let second = 0; second < 20; second++) {
      const reply = await gateway.get(PATH);
      expect([reply.status, cacheStatus(reply).hit]).toEqual([200, true]);
      await landed(gateway);
      clock.pass(1_000);
    }
    expect(gateway.sandbox.requests()).toHaveLength(refreshes);
    expect((await gateway.get(PATH)).text === text).toBe(refreshes === 0);
    // Nine places are left for callers, or eight.
    const statuses: number[] = [];
    for (let asked = 0; asked < 10; asked++) statuses.push((await gateway.get(`/areas?q=${asked}`)).status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(9 - refreshes);
  });

  it("without a slot is made as soon as one is free, and callers get the stale answer until then", async () => {
    const { gateway, clock, text } = await startExpired({ env: { BUDGET: "1/330s" } });
    for (let second = 0; second < 27; second++) {
      const reply = await gateway.get(PATH);
      expect([reply.text, cacheStatus(reply)]).toEqual([text, expect.objectContaining(UPDATING)]);
      await landed(gateway);
      clock.pass(1_000);
    }
    expect(gateway.sandbox.requests()).toEqual([]);
    clock.pass(4_000);
    expect((await gateway.get(PATH)).text).toBe(text);
    await landed(gateway);
    expect(gateway.sandbox.requests()).toHaveLength(1);
    expect((await gateway.get(PATH)).text).not.toBe(text);
  });

  it("that fails is retried after growing pauses", async () => {
    const { gateway, clock, text } = await startExpired({
      env: EXACT_PAGES,
      settings: "upstream: { retryDelay: 1ms }\ncache: { staleWhileRevalidate: 1h }",
    });
    gateway.sandbox.faults.add({ status: 500 });
    const expiredAt = clock.now();
    const details = new Set<unknown>();
    for (let second = 0; second < 260; second++) {
      const reply = await gateway.get(PATH);
      expect([reply.status, reply.text]).toEqual([200, text]);
      details.add(cacheStatus(reply)["detail"]);
      await landed(gateway);
      clock.pass(1_000);
    }
    const triedAt = new Set(gateway.sandbox.requests().map(({ at }) => (at - expiredAt) / 1_000));
    expect([...triedAt]).toEqual([0, 5, 15, 35, 75, 135, 195, 255]);
    expect([...details]).toEqual(["stale-while-revalidate", "upstream-error"]);
    gateway.sandbox.faults.clear();
    clock.pass(60_000);
    await gateway.get(PATH);
    await landed(gateway);
    expect((await gateway.get(PATH)).text).not.toBe(text);
  });
});

describe("a caller that needs the new answer", () => {
  /** A gateway with one refresh in flight and another one in the queue. The clock does not move, so neither times out. */
  async function startWithQueuedRefresh(): Promise<TestGateway> {
    const clock = createFakeClock(Date.now());
    const gateway = await startGateway({
      clock,
      sandbox: { now: clock.now },
      env: { BUDGET_CONCURRENCY: "2" },
      settings: APPS,
    });
    for (const path of [OTHER, PATH]) await gateway.get(path);
    await clock.advance(TTL_MS);
    gateway.sandbox.revise();
    gateway.sandbox.clearRequests();
    gateway.sandbox.hold();
    await gateway.get(OTHER);
    await gateway.sandbox.waitForRequests(1);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject(UPDATING);
    await expect.poll(() => gateway.metric('gateway_throttle_queue_length{priority="refresh"}')).toBe(1);
    return gateway;
  }

  it.each<[string, (gateway: TestGateway) => Promise<unknown>, Record<string, string>, string]>([
    [
      "because the old one was purged meanwhile",
      (gateway) => post(`${gateway.adminUrl}/cache/purge`, '{"resource":"listings"}'),
      {},
      "stale",
    ],
    ["and says so", async () => undefined, { "cache-control": "no-cache", "x-app-id": "desk" }, "stale"],
  ])("%s joins the queued refresh and moves it ahead of other calls", async (_name, before, headers, fwd) => {
    const gateway = await startWithQueuedRefresh();
    const { text } = await gateway.get(PATH);
    await before(gateway);
    const waiting = gateway.get(PATH, { headers });
    // While the first refresh is still on its way.
    await gateway.sandbox.waitForRequests(2);
    expect(gateway.sandbox.waiting()).toBe(2);
    gateway.sandbox.release();
    const reply = await waiting;
    expect(cacheStatus(reply)).toMatchObject({ fwd, collapsed: true });
    expect(reply.text).not.toBe(text);
    await landed(gateway);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("and hangs up leaves a refresh whose answer is cached", async () => {
    const gateway = await startWithQueuedRefresh();
    const { text } = await gateway.get(PATH);
    const joined = new AbortController();
    const waiting = gateway.get(PATH, { headers: { "cache-control": "no-cache" }, signal: joined.signal });
    const hungUp = expect(waiting).rejects.toThrow("aborted");
    await gateway.sandbox.waitForRequests(2);
    joined.abort();
    await hungUp;
    gateway.sandbox.release();
    await landed(gateway);
    const next = await gateway.get(PATH);
    expect(next.text).not.toBe(text);
    expect(cacheStatus(next)).toMatchObject({ hit: true, detail: "memory" });
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("does not wait for refreshes that use all slots allowed for them", async () => {
    const gateway = await startWithQueuedRefresh();
    const waiting = gateway.get("/areas?q=new");
    await gateway.sandbox.waitForRequests(2);
    expect(gateway.sandbox.requests().at(-1)).toMatchObject({ path: expect.stringContaining("/areas") });
    gateway.sandbox.release();
    expect((await waiting).status).toBe(200);
    await landed(gateway);
  });
});
