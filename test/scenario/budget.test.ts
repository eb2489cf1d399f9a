/** The budget as callers and operators see it. */
import { describe, expect, it } from "vitest";

import { cacheStatus, problemCode, type Reply } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const PATH = "/listings?areaId=76&limit=5";
const APPS = "apps: [{ id: web, weight: 2 }, { id: batch, priority: background }]";

const from = (app: string): { headers: Record<string, string> } => ({ headers: { "x-app-id": app } });

it("the budget is charged for every upstream request, retries included, and for nothing else", async () => {
  const gateway = await startGateway({ settings: `upstream: { retryDelay: 1ms }\n${APPS}` });
  gateway.sandbox.faults.add({ status: 500, times: 1 });
  gateway.sandbox.hold();
  const asked = [gateway.get(PATH, from("web")), gateway.get(PATH, from("web"))];
  await gateway.sandbox.waitForRequests(1);
  gateway.sandbox.release();
  const [first] = await Promise.all(asked);
  const etag = first?.headers.etag ?? "";
  expect((await gateway.get(PATH)).status).toBe(200);
  expect((await gateway.get(PATH, { headers: { "if-none-match": etag } })).status).toBe(304);
  expect((await gateway.get("/listings?limit=501")).status).toBe(400);
  expect((await gateway.get("/nowhere")).status).toBe(404);
  const streamed = { ...from("web").headers, "cache-control": "no-store" };
  expect((await gateway.get(PATH, { headers: streamed })).status).toBe(200);
  expect(gateway.sandbox.requests()).toHaveLength(3);
  expect(await gateway.metric('gateway_budget_spent_total{app="web",cause="bypass"}')).toBe(1);
  expect(await gateway.metric('gateway_budget_spent_total{app="web",cause="miss"}')).toBe(1);
  expect(await gateway.metric('gateway_budget_spent_total{app="web",cause="retry"}')).toBe(1);
  expect(await gateway.metric('gateway_budget_spent_total{app="other",cause="miss"}')).toBe(0);
  expect(await gateway.metric('gateway_budget_remaining{window="1m"}')).toBe(1_000_000 - 3);
  expect(await gateway.metric('gateway_budget_limit{window="images/1m"}')).toBe(300);
});

describe("the RateLimit headers", () => {
  it("show an app its share of each window and what is left of it", async () => {
    const gateway = await startGateway({ env: { BUDGET: "40/1m,400/1d" }, settings: APPS });
    // Alone, an app has all of it.
    expect((await gateway.get("/areas?q=0", from("web"))).headers["ratelimit-policy"]).toMatch(/^"1m";q=40;/);
    // Others whose calls count have their shares, listed or not.
    await gateway.get("/areas?q=batch", from("batch"));
    const unlisted = await gateway.get("/areas?q=unlisted", from("unlisted"));
    // Unlisted ids together may use half of a long window.
    expect(unlisted.headers["ratelimit"]).toMatch(/"1d";r=199;/);
    const { headers } = await gateway.get("/areas?q=1", from("web"));
    expect(headers["ratelimit-policy"]).toBe('"1m";q=20;w=60, "1d";q=373;w=86400');
    expect(headers["ratelimit"]).toMatch(/^"1m";r=18;t=\d+, "1d";r=371;t=\d+$/);
    expect((await gateway.get(PATH, from("batch"))).headers["ratelimit-policy"]).toMatch(/^"1m";q=10;w=60,/);
    // Every call that goes is seen at once.
    const left = async (q: string): Promise<string | undefined> =>
      (await gateway.get(`/areas?q=${q}`, from("batch"))).headers["ratelimit"]?.toString().split(";t")[0];
    expect([await left("a"), await left("b"), await left("c")]).toEqual(['"1m";r=7', '"1m";r=6', '"1m";r=5']);
  });

  it("show an app with perDay what is left of it in any 24 hours, except for thumbnails", async () => {
    const clock = createSteppingClock();
    const settings = "apps: [{ id: cheap, perDay: 3 }]";
    const random = { fraction: () => 0 };
    const gateway = await startGateway({ clock, random, env: { BUDGET: "30/1m" }, settings });
    const cheap = (path: string): Promise<Reply> => gateway.get(path, from("cheap"));
    expect((await cheap("/areas?q=a")).headers["ratelimit-policy"]).toBe(
      '"1m";q=30;w=60, "per-day";q=3;w=86400',
    );
    clock.pass(3_600_000);
    for (const q of ["b", "c"]) expect((await cheap(`/areas?q=${q}`)).status).toBe(200);
    clock.pass(1_000);
    // What has been spent an hour ago is the first to be free again; a hit says so too.
    expect((await cheap("/areas?q=c")).headers["ratelimit"]).toBe('"1m";r=28;t=60, "per-day";r=0;t=82800');
    // A refusal never says that calls are left.
    const refused = await cheap("/areas?q=d");
    expect([refused.status, problemCode(refused)]).toEqual([429, "quota-exceeded"]);
    expect(refused.headers["ratelimit"]).toBe('"1m";r=0;t=82800, "per-day";r=0;t=82800');
    expect(refused.headers["retry-after"]).toBe("82800");
    // Other apps are served. The app may use the answers that they have fetched.
    expect((await gateway.get("/areas?q=d", from("web"))).status).toBe(200);
    expect((await cheap("/areas?q=d")).status).toBe(200);
    expect((await cheap("/cache/primary_1_40x30.jpg")).headers["ratelimit-policy"]).toBe('"1m";q=300;w=60');
    expect((await gateway.get(PATH, from("web"))).headers["ratelimit-policy"]).toBe('"1m";q=15;w=60');
  });
});

describe("an app", () => {
  it("that has used up its share gets Retry-After, and is served after that time", async () => {
    const clock = createSteppingClock();
    const gateway = await startGateway({
      clock,
      random: { fraction: () => 0 },
      env: { BUDGET: "8/1h" },
      settings: APPS,
    });
    expect((await gateway.get("/areas?q=a", from("somebody"))).status).toBe(200);
    // Its share, and what others leave, but for a tenth.
    for (const q of ["1", "2", "3", "4", "5", "6"])
      expect((await gateway.get(`/areas?q=${q}`, from("web"))).status).toBe(200);
    const refused = await gateway.get("/areas?q=d", from("web"));
    expect([refused.status, problemCode(refused)]).toEqual([429, "quota-exceeded"]);
    // A tenth of the window is kept for others.
    expect(refused.headers["retry-after"]).toBe("3601");
    expect(cacheStatus(refused)).toMatchObject({ detail: "quota-exceeded" });
    expect(await gateway.metric('gateway_refused_total{app="web",reason="share"}')).toBe(1);
    expect((await gateway.get("/areas?q=b", from("somebody"))).status).toBe(200);
    clock.pass(3_601_000);
    expect((await gateway.get("/areas?q=d", from("web"))).status).toBe(200);
  });

  it("that has used up its share does not fail other apps in the same flight", async () => {
    const gateway = await startGateway({
      env: { BUDGET_CONCURRENCY: "1" },
      settings: "apps: [{ id: cheap, perDay: 1 }]",
    });
    await gateway.get("/areas?q=a", from("cheap"));
    const [refused, served] = await Promise.all([
      gateway.get("/areas?q=b", from("cheap")),
      gateway.get("/areas?q=b"),
    ]);
    expect([refused.status, served.status]).toEqual([429, 200]);
  });
});

it("an app that is not listed is shown by its id to operators; metrics name only the first ones", async () => {
  const settings = `${APPS}\nmetrics: { apps: 3 }`;
  const gateway = await startGateway({ env: { BUDGET: "40/1h" }, settings });
  for (const [index, app] of ["first", "second", "second", "<b>=1"].entries())
    expect((await gateway.get(`/areas?q=${index}`, from(app))).status).toBe(200);
  const byApp = { first: 1, second: 2, "-b--1": 1 };
  expect(await gateway.shows("/budget")).toMatchObject({ api: { windows: [{ byApp }] } });
  expect(await gateway.shows("/usage?from=-1h&by=app")).toMatchObject({
    rows: [
      { app: "-b--1", sends: 1 },
      { app: "first", sends: 1 },
      { app: "second", sends: 2 },
    ],
  });
  for (const [app = "", appIs, shown = app] of [
    ["web", "listed"],
    ["second", "not listed"],
    ["<b>=1", "not listed", "-b--1"],
    ["third", "never seen"],
  ])
    expect(await gateway.shows(`/quote?app=${app}&url=/areas`)).toMatchObject({ app: shown, appIs });
  expect((await gateway.logged('"app":"second"'))["msg"]).toBe("request");
  expect(await gateway.metric('gateway_budget_spent_total{app="first",cause="miss"}')).toBe(1);
  expect(await gateway.metric('gateway_budget_spent_total{app="second",cause="miss"}')).toBe(0);
  expect(await gateway.metric('gateway_budget_spent_total{app="other",cause="miss"}')).toBe(3);
});

describe("operators", () => {
  it("see the state of the budget", async () => {
    const gateway = await startGateway({ env: { BUDGET: "3/1h" }, settings: APPS });
    await gateway.get("/areas?q=a", from("web"));
    await gateway.get("/areas?q=b", from("batch"));
    expect(await gateway.shows("/budget")).toMatchObject({
      mode: "enforce",
      reserve: 0.1,
      api: {
        mode: "alone",
        windows: [{ name: "1h", limit: 3, spent: 2, remaining: 1, heldBack: 0, byApp: { web: 1, batch: 1 } }],
        queue: { interactive: 0, background: 0, refresh: 0, prefetch: 0 },
        predictedWaitMs: 0,
        circuits: [],
      },
      images: { windows: [{ name: "1m", limit: 300, spent: 0 }] },
    });
    await gateway.get("/areas?q=c");
    // Unlisted apps have had their share: one of three.
    expect(await gateway.shows("/budget")).toMatchObject({ api: { waitsFor: "share" } });
    expect((await gateway.shows("/budget")).api.predictedWaitMs).toBeGreaterThan(3_500_000);
  });

  it("get a quote for a request without an upstream call", async () => {
    const gateway = await startGateway({ env: { BUDGET: "1/1h" }, settings: APPS });
    const quote = (path: string, app = "web"): Promise<unknown> =>
      gateway.shows(`/quote?app=${app}&url=${encodeURIComponent(path)}`);
    expect(await quote("/areas?q=Nacka")).toMatchObject({
      query: "areas?q=Nacka",
      app: "web",
      cached: false,
      upstreamCalls: 1,
      predictedWaitMs: 0,
      refusal: null,
    });
    expect(gateway.sandbox.requests()).toHaveLength(0);
    await gateway.get("/areas?q=Nacka");
    // Another spelling of the same question.
    expect(await quote("/areas/?q=+Nacka&")).toMatchObject({ cached: true, upstreamCalls: 0 });
    expect(await quote("/areas?q=Solna", "nobody")).toMatchObject({
      app: "nobody",
      appIs: "never seen",
      upstreamCalls: 0,
      waitsFor: "budget",
      refusal: expect.stringMatching(/quota-exceeded|temporary-reduced-capacity/),
    });
    expect(gateway.sandbox.requests()).toHaveLength(1);
    expect(await gateway.metric('gateway_budget_remaining{window="1h"}')).toBe(0);
    // Half of a URL is not quoted as if it were all of it.
    const detail = expect.stringMatching(/parameter/);
    for (const rest of ["/listings?areaId=76&limit=3", "/areas&url=/areas", "/areas&foo=1"])
      expect(await gateway.shows(`/quote?url=${rest}`)).toMatchObject({ status: 400, detail });
  });
});
