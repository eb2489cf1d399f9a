import { writeFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { ask, type Reply } from "../support/ask.ts";
import { fileWith } from "../support/files.ts";
import { startFleet } from "../support/fleet.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

/** A gateway whose settings file the test can change. */
async function startWith(text: string, env: Record<string, string> = {}) {
  let settings = text;
  const gateway = await startGateway({ settings: () => settings, env: { BUDGET: "", ...env } });
  return {
    gateway,
    /** As an editor does, or Kubernetes. */
    write: (next: string): void => void (settings = next),
    reload: (next: string): Promise<Reply> => {
      settings = next;
      return ask(`${gateway.adminUrl}/config/reload`, { method: "POST" });
    },
  };
}

const AMPLE = "limit: 1000000/1m";
const cacheStatus = async (gateway: TestGateway, path: string): Promise<string> =>
  String((await gateway.get(path)).headers["cache-status"]);

describe("reloaded settings", () => {
  it("are in force at once, and the differences are in the answer and in the log", async () => {
    const { gateway, reload } = await startWith(`budget: { ${AMPLE} }`);
    expect(await cacheStatus(gateway, "/areas?q=a")).toMatch(/ttl=86[34]\d\d/);
    const reply = await reload(
      `budget: { limit: 10/1m }\ncache: { ttl: { areas: 1m }, negativeTtl: { sold: 2m } }`,
    );
    expect([reply.status, reply.json()]).toEqual([
      200,
      {
        applied: true,
        says: expect.any(String),
        changes: [
          { path: "cache.ttl.areas", from: "24h", to: "1m" },
          { path: "cache.negativeTtl.sold", from: "1m", to: "2m" },
          { path: "budget.limit", from: "1000000/1m", to: "10/1m" },
        ],
      },
    ]);
    expect(await gateway.logged("are in force")).toMatchObject({
      level: "info",
      by: "request",
      changes: [
        "cache.ttl.areas: 24h → 1m",
        "cache.negativeTtl.sold: 1m → 2m",
        "budget.limit: 1000000/1m → 10/1m",
      ],
    });
    const after = await gateway.get("/areas?q=b");
    expect(after.headers["cache-status"]).toMatch(/ttl=(5\d|60)/);
    expect(after.headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
    expect(await gateway.metric('gateway_config_reloads_total{result="applied"}')).toBe(1);
  });

  it("set how old any answer may be served, also for answers from before the reload", async () => {
    const { gateway, reload } = await startWith(`budget: { ${AMPLE} }`);
    const entryOf = async (path: string): Promise<unknown> =>
      (await ask(`${gateway.adminUrl}/cache/entry?url=${encodeURIComponent(path)}`)).json();
    expect((await gateway.get("/areas?limit=1")).status).toBe(200);
    expect((await reload(`budget: { ${AMPLE} }\ncache: { maxAgeEver: 500ms }`)).status).toBe(200);
    await expect.poll(() => entryOf("/areas?limit=1")).toMatchObject({ next: "fetch" });
  });

  it("are read when the file has changed, with watchSettings; mistakes in it change nothing", async () => {
    const env = { WATCH_SETTINGS: "true" };
    const { gateway, write } = await startWith(`budget: { ${AMPLE} }`, env);
    write("budget: { limit: 10/1m }");
    expect(await gateway.logged("are in force")).toMatchObject({ by: "file" });
    expect((await gateway.get("/areas?q=b")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
    write("budget: { limit: many }");
    expect(await gateway.logged("Reload failed")).toMatchObject({ by: "file", result: "invalid" });
    expect((await gateway.get("/areas?q=c")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
    expect(await gateway.metric("gateway_config_last_reload_successful")).toBe(0);
  });

  it("without a difference have an empty list of changes", async () => {
    const { reload } = await startWith(`budget: { ${AMPLE} }`);
    const reply = await reload(`budget: { limit: 1000000/1m }`);
    expect([reply.status, reply.json()]).toEqual([
      200,
      { applied: true, changes: [], says: "The settings are in force. Changed: nothing." },
    ]);
  });

  it("with mistakes are refused as a whole, and every mistake is named", async () => {
    const { gateway, reload } = await startWith(`budget: { ${AMPLE} }`);
    const reply = await reload(`budget: { limit: many }\ncache: { ttl: { areas: 1m } }\nsever: {}`);
    expect([reply.status, reply.headers["content-type"]]).toEqual([422, "application/problem+json"]);
    const { type, problems } = Object(reply.json());
    expect(type).toBe("urn:property-gateway:problem:invalid-settings");
    expect(problems).toEqual([
      expect.stringMatching(/^test\.yaml:3: sever: unknown setting; did you mean server\?/),
      expect.stringMatching(/^test\.yaml:1: budget\.limit: .*60\/1m/),
    ]);
    expect(await gateway.logged("previous settings stay in force")).toMatchObject({
      level: "error",
      result: "invalid",
      problems,
    });
    expect(await cacheStatus(gateway, "/areas?q=a")).toMatch(/ttl=86[34]\d\d/);
    expect(await gateway.metric("gateway_config_last_reload_successful")).toBe(0);
    expect((await reload(`budget: { ${AMPLE} }`)).status).toBe(200);
    expect(await gateway.metric("gateway_config_last_reload_successful")).toBe(1);
  });

  it("that need a restart are refused as a whole, by name", async () => {
    const { gateway, reload } = await startWith(`budget: { ${AMPLE} }`);
    const reply = await reload(
      `budget: { limit: 5/1m, replicas: 2 }\ncache: { maxBytes: 1MiB }\nserver: { appIdHeader: X-App }\n` +
        `redis: { url: "redis://me:pass-word@127.0.0.1:6379" }`,
    );
    expect([reply.status, Object(reply.json()).problems]).toEqual([
      409,
      [
        "server.appIdHeader: X-App-Id → X-App",
        "cache.maxBytes: 256MiB → 1MiB",
        "budget.replicas: 1 → 2",
        "redis.url: changed",
      ],
    ]);
    expect((await gateway.get("/areas?q=a")).headers["ratelimit-policy"]).toContain("q=1000000");
    expect(gateway.log.join("")).not.toContain("pass-word");
  });

  it("may have new windows of up to a day, because calls are remembered that long", async () => {
    const { gateway, reload } = await startWith("budget: { limit: 3/2s }");
    for (const q of ["a", "b", "c"]) await gateway.get(`/areas?q=${q}`);
    expect((await reload("budget: { limit: 3/2d }")).status).toBe(409);
    expect((await reload("budget: { limit: 3/1d }")).status).toBe(200);
    // Earlier calls count in the longer window too.
    expect((await gateway.get("/areas?q=d")).status).toBe(503);
    expect(gateway.sandbox.requests()).toHaveLength(3);
    const { api } = Object((await ask(`${gateway.adminUrl}/budget`)).json());
    expect(api.windows).toMatchObject([{ name: "1d", limit: 3, spent: 3, remaining: 0 }]);
    // The removed window is not shown.
    expect((await ask(`${gateway.adminUrl}/metrics`)).text).not.toContain('window="2s"');
  });

  it("do not change the limits under which earlier calls are judged", async () => {
    const { gateway, reload } = await startWith("budget: { limit: 10/1h }");
    const ask4 = async (name: string): Promise<number[]> => {
      const replies = [];
      for (const q of [1, 2, 3, 4]) replies.push(await gateway.get(`/areas?q=${name}${q}`));
      return replies.map(({ status }) => status);
    };
    const hour = async (): Promise<unknown> =>
      Object((await ask(`${gateway.adminUrl}/usage?from=-1h`)).json()).windows[0];
    const instant = expect.stringMatching(/^20.*Z$/);
    expect(await ask4("ten")).toEqual([200, 200, 200, 200]);
    const all = { name: "1h", limit: 10, maximum: 4, reachedAt: instant, kept: true };
    await expect.poll(hour).toEqual(all);
    await reload("budget: { limit: 3/1h }");
    expect(await ask4("three")).toEqual([503, 503, 503, 503]);
    const lowered = { name: "1h", limit: 3, maximum: 4, reachedAt: instant };
    expect(await hour()).toEqual({ ...lowered, kept: true, limits: [10] });
    // Calls beyond it exceed it, also after it was raised again.
    await reload("budget: { limit: 3/1h, mode: observe }");
    expect(await ask4("observed")).toEqual([200, 200, 200, 200]);
    await reload("budget: { limit: 10/1h }");
    expect(await hour()).toEqual({
      ...lowered,
      limit: 10,
      maximum: 8,
      kept: true,
      limits: [10, 3],
    });
  });

  it("with a higher limit release queued requests", async () => {
    const { gateway, reload } = await startWith("budget: { limit: 1/1h, maxWait: 9h }");
    expect((await gateway.get("/areas?q=first")).status).toBe(200);
    const waiting = Promise.all(["a", "b", "c"].map((q) => gateway.get(`/areas?q=${q}`)));
    await expect.poll(() => gateway.metric('gateway_throttle_queue_length{priority="interactive"}')).toBe(3);
    expect((await reload("budget: { limit: 10/1h, maxWait: 9h, concurrency: 1 }")).status).toBe(200);
    expect((await waiting).map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  it("do not affect calls in flight", async () => {
    const { gateway, reload } = await startWith(`budget: { ${AMPLE} }`);
    gateway.sandbox.hold();
    const inFlight = Promise.all(["a", "b"].map((q) => gateway.get(`/areas?q=${q}`)));
    await gateway.sandbox.waitForRequests(2);
    expect((await reload("budget: { limit: 2/1h, concurrency: 1 }")).status).toBe(200);
    gateway.sandbox.release();
    expect((await inFlight).map(({ status }) => status)).toEqual([200, 200]);
    expect((await gateway.get("/areas?q=c")).status).toBe(503);
  });

  it("switch between enforcing and observing the budget", async () => {
    const { gateway, reload } = await startWith("budget: { limit: 1/1h }");
    const ask3 = async (name: string): Promise<number[]> => {
      const replies = [];
      for (const q of [1, 2]) replies.push(await gateway.get(`/areas?q=${name}${q}`));
      return replies.map(({ status }) => status);
    };
    expect(await ask3("enforced")).toEqual([200, 503]);
    await reload("budget: { limit: 1/1h, mode: observe }");
    expect(await ask3("observed")).toEqual([200, 200]);
    await reload("budget: { limit: 1/1h }");
    expect(await ask3("again")).toEqual([503, 503]);
  });

  it("add and remove apps", async () => {
    const { gateway, reload } = await startWith(`budget: { ${AMPLE} }\napps: [{ id: web }]`);
    const appIs = async (id: string): Promise<unknown> =>
      Object((await ask(`${gateway.adminUrl}/quote?url=/areas?q=a&app=${id}`)).json()).appIs;
    expect([await appIs("web"), await appIs("batch")]).toEqual(["listed", "never seen"]);
    await reload(`budget: { limit: 100/1m }\napps: [{ id: batch, weight: 3, perDay: 2 }]`);
    expect([await appIs("web"), await appIs("batch")]).toEqual(["never seen", "listed"]);
    const policyOf = async (id: string): Promise<unknown> =>
      (await gateway.get("/areas?q=c", { headers: { "x-app-id": id } })).headers["ratelimit-policy"];
    expect(await policyOf("batch")).toBe('"1m";q=100;w=60, "per-day";q=2;w=86400');
    // Its own limit for a day counts at once.
    await gateway.get("/areas?q=d", { headers: { "x-app-id": "batch" } });
    const refused = await gateway.get("/areas?q=e", { headers: { "x-app-id": "batch" } });
    expect([refused.status, Object(refused.json()).title]).toEqual([429, expect.stringContaining("share")]);
  });
});

describe("SIGHUP", () => {
  it("makes a process reload its settings", async () => {
    const CONFIG_FILE = fileWith("cache: { ttl: { areas: 1h } }");
    const fleet = await startFleet({ CONFIG_FILE });
    const replica = await fleet.start();
    writeFileSync(CONFIG_FILE, "cache: { ttl: { areas: 1m } }");
    replica.process.child.kill("SIGHUP");
    await replica.process.says(/"by":"SIGHUP","changes":\["cache.ttl.areas: 1h → 1m"\]/);
    expect((await ask(`${replica.url}/areas?q=a`)).headers["cache-control"]).toMatch(/max-age=(5\d|60)/);
    for (const [mistake, line] of [
      ["cache: [", /"by":"SIGHUP","result":"invalid"/],
      ["log: { access: many }", /"by":"SIGHUP","result":"invalid".*log\.access/],
    ] as const) {
      writeFileSync(CONFIG_FILE, mistake);
      replica.process.child.kill("SIGHUP");
      await replica.process.says(line);
    }
    expect((await ask(`${replica.url}/areas?q=b`)).status).toBe(200);
    replica.process.child.kill("SIGTERM");
    expect(await replica.process.ended).toBe(0);
  });
});
