/** The status page's files, and the status that it asks for. */
import { expect, it } from "vitest";

import type { Status } from "../../src/admin/status/status.ts";
import { ask } from "../support/ask.ts";
import { startGateway, startTwo, type TestGateway } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";

const statusOf = ({ shows }: TestGateway, search = ""): Promise<Status> => shows(`/status${search}`);

it("the page loads only its own files, has a strict policy, and is cached by browsers", async () => {
  const gateway = await startGateway();
  const page = await gateway.admin("/");
  expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
  const policy = String(page.headers["content-security-policy"]);
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
  expect(policy).not.toContain("unsafe");
  expect(page.text).not.toMatch(/<script>|style="|https?:/);
  const files = [...page.text.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map(([, path = ""]) => path);
  expect(files).toEqual(["page/uplot.css", "page/status.css", "page/status.js"]);
  for (const path of ["", ...files, "page/uplot.js"]) {
    const { status, headers } = await gateway.admin(`/${path}`);
    const again = await ask(`${gateway.adminUrl}/${path}`, { headers: { "if-none-match": headers.etag } });
    expect([path, status, again.status]).toEqual([path, 200, 304]);
  }
  expect((await gateway.admin("/page/../guard.ts")).status).toBe(404);
});

it("GET /status shows requests, apps, budget and circuits with their start, and says what is wrong first", async () => {
  const before = Date.now();
  const gateway = await startGateway({ settings: "apps: [{ id: web }]", env: { BUDGET: "10/1h" } });
  const headers = { "x-app-id": "web" };
  for (let at = 0; at < 3; at++) await gateway.get("/areas?q=Nacka", { headers });
  await gateway.get("/areas?limit=no", { headers });
  gateway.sandbox.faults.add({ status: 503, retryAfter: "60" });
  await gateway.get("/sold/1", { headers: { "user-agent": "feed/2.1" } });
  const status = await statusOf(gateway, "?span=1h");
  const web = { app: "web", isListed: true, cached: 2, fetched: 1, mistakes: 1 };
  expect(status).toMatchObject({
    scope: "alone",
    mode: "enforce",
    processes: [{ startedAt: expect.any(Number) }],
    requests: { cached: 2, fetched: 1, failed: 1, mistakes: 1 },
    saved: { hit: 2 },
    asked: [{ query: "areas?q=Nacka", count: 3 }, {}],
    series: { stepMs: 20_000 },
    budget: { api: { windows: [{ name: "1h", limit: 10, remaining: 8, comesBack: [{ calls: 1 }] }] } },
    upstream: { areas: { calls: 1, failed: 0 }, sold: { failed: 1, lastFailure: "status 503" } },
    apps: [
      { app: "feed", failed: 1, failures: { "upstream-unavailable": 1 } },
      { ...web, spent: { "1h": 1 }, shares: [{ name: "1h" }] },
    ],
  });
  const lastStepAt = (now: number): number => Math.floor(now / status.series.stepMs) - 1;
  expect(status.series.lastStep).toBeGreaterThanOrEqual(lastStepAt(before));
  expect(status.series.lastStep).toBeLessThanOrEqual(lastStepAt(Date.now()));
  const [circuit] = status.budget.api.circuits;
  expect(circuit).toMatchObject({ scope: "sold", state: "open", cause: "unavailable" });
  expect(circuit?.since).toBeGreaterThanOrEqual(before - 1_000);
  expect(circuit?.since).toBeLessThanOrEqual(Date.now() + 1_000);
  expect(circuit?.until).toBeGreaterThan(before + 50_000);
  const text = expect.stringMatching(
    /^feed gets 503 since [\d:]{8} UTC: the API for sold records answers 503 /,
  );
  expect(status.sentences).toMatchObject([{ id: "api-unavailable", level: "bad", text }]);
  expect(status.problems.map(({ what }) => what)).toEqual(
    expect.arrayContaining(["upstream-unavailable", "status 503"]),
  );
});

it("/budget shows for each app what is left in each window, and when more is free", async () => {
  const settings = "apps: [{ id: web, perDay: 100 }, { id: idle }]";
  const gateway = await startGateway({ env: { BUDGET: "10/1m" }, settings });
  await gateway.get("/areas?q=a", { headers: { "x-app-id": "web" } });
  await gateway.get("/areas?q=b", { headers: { "x-app-id": "stranger" } });
  const { api } = await gateway.shows("/budget");
  const window = { name: "1m", windowSeconds: 60, resetSeconds: expect.any(Number) };
  const today = { name: "per-day", limit: 100, remaining: 99 };
  expect(api.apps).toMatchObject([
    { app: "web", isListed: true, shares: [{ ...window, remaining: expect.any(Number) }, today] },
    { app: "idle", isListed: true, shares: [window] },
    { app: "stranger", isListed: false, shares: [window] },
  ]);
  for (const { shares } of api.apps) {
    for (const { limit, remaining, resetSeconds } of shares) {
      expect([limit, remaining].every(Number.isInteger)).toBe(true);
      expect(resetSeconds).toBeGreaterThan(0);
    }
  }
});

it("says that apps get errors from one process, although the API answers the others", async () => {
  const redis = await redisForTest();
  const [first, second] = await startTwo({ redis, settings: "redis: { timeout: 10s }" });
  // The call and its retry.
  first.sandbox.faults.add({ status: 500, times: 2 });
  await second.get("/areas?q=Sickla");
  await first.get("/areas?q=Nacka");
  const shown = async (): Promise<unknown> => (await statusOf(first)).sentences[0]?.text;
  await expect.poll(shown).toMatch(/^unidentified apps get 502 since /);
});

it("with Redis, GET /status shows all processes as long as they run, and says that it shows one process while Redis is down", async () => {
  const redis = await redisForTest();
  const [first, second] = await startTwo({ redis, settings: "redis: {}" });
  await first.get("/areas?q=Nacka");
  await second.get("/areas?q=Nacka");
  await expect.poll(() => statusOf(first)).toMatchObject({ scope: "all" });
  // What anyone else writes is not shown, even if it is a copy of what a replica has written.
  const [key = ""] = [await redis.command("KEYS", "*:status:*")].flat().map(String);
  const copied = [await redis.command("HVALS", key)].flat().map(String);
  for (let look = 0; look < 50; look++) {
    const later = key.replace(/\d+$/, String(look));
    await redis.command("HSET", later, "another", copied[0] ?? "", "third", '{"processes":1e9}');
  }
  let mostShown = 0;
  const noted = async (gateway: TestGateway): Promise<unknown> => {
    const status = await statusOf(gateway);
    mostShown = Math.max(mostShown, status.processes.length);
    return status;
  };
  const counts = { asked: [{ query: "areas?q=Nacka", count: 2 }], requests: { cached: 1, fetched: 1 } };
  const both = { scope: "all", processes: [{}, {}], ...counts };
  for (const gateway of [first, second]) await expect.poll(() => noted(gateway)).toMatchObject(both);
  expect(mostShown).toBe(2);
  await second.stop();
  await expect.poll(() => statusOf(first)).toMatchObject({ scope: "all", processes: [{}] });
  await redis.kill();
  const outages = [{ what: expect.stringContaining("Redis") }];
  await expect
    .poll(() => statusOf(first))
    .toMatchObject({ scope: "cut-off", processes: [{}], asked: [{ count: 1 }], outages });
});
