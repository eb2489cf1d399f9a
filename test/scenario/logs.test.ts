import { pathToFileURL } from "node:url";

import { describe, expect, it } from "vitest";

import { type Anything, fileWith } from "../support/files.ts";
import { startFleet } from "../support/fleet.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";
import { createLeapingClock } from "../support/stepping-clock.ts";

const PATH = "/listings?areaId=76&limit=5";

function linesOf(gateway: TestGateway, msg: string): Anything[] {
  return gateway.log.map((text): Anything => JSON.parse(text)).filter((line) => line.msg === msg);
}

describe("an outage", () => {
  it("of the upstream has one warning and one line at its end", async () => {
    const clock = createLeapingClock();
    const settings = "cache: { ttl: { listings: 10s } }\nupstream: { retryDelay: 1ms }";
    const gateway = await startGateway({ clock, settings });
    await gateway.get(PATH);
    clock.leap(60_000);
    const beganAt = clock.now();
    gateway.sandbox.faults.add({ status: 500 });
    for (let n = 0; n < 10; n++) await gateway.get(`/listings?areaId=${n + 1}&limit=5`);
    for (let n = 0; n < 3; n++) await gateway.get(PATH);
    // The outage does not cause these errors.
    for (let n = 0; n < 10; n++) await gateway.get("/listings?limit=900");
    const cause = "most of its last answers were errors or timeouts";
    const meanwhile = expect.stringMatching(/^Callers get cached answers/);
    expect(linesOf(gateway, "Outage began")).toMatchObject([{ level: "warn", cause, meanwhile }]);
    clock.leap(20_000);
    gateway.sandbox.faults.clear();
    await gateway.get("/listings?areaId=99&limit=5");
    const back = await gateway.logged('"Outage over"');
    expect(back).toMatchObject({ level: "info", what: "upstream api/listings", servedStale: 3 });
    expect(back["forMs"]).toBeGreaterThanOrEqual(20_000);
    expect(Date.parse(String(back["since"]))).toBeGreaterThanOrEqual(beganAt);
    // The first requests made the circuit open; the others met it.
    expect(back["refused"]).toBeGreaterThan(5);
    expect(back["refused"]).toBeLessThan(11);
    expect(linesOf(gateway, "Outage began")).toHaveLength(1);
    expect(linesOf(gateway, "Outage over")).toHaveLength(1);
  });

  it("of Redis has one warning and one line at its end; lost lines of the ledger have one", async () => {
    const redis = await redisForTest();
    const gateway = await startGateway({ redis, settings: "redis: { timeout: 1s, probeInterval: 100ms }" });
    await gateway.get(PATH);
    // The cache and the limiter miss the same answer at the same time.
    redis.freeze();
    await gateway.logged('"Outage began"');
    await redis.kill();
    for (let n = 0; n < 5; n++) await gateway.get(`/areas?q=word-${n}`);
    expect(await gateway.logged('"Outage began"')).toMatchObject({ level: "warn", what: "Redis" });
    await redis.restart();
    expect(await gateway.logged('"Outage over"')).toMatchObject({ level: "info", what: "Redis" });
    await gateway.logged("The ledger has lost lines");
    const warnings = gateway.log.filter((line) => line.includes('"level":"warn"') && line.includes("Redis"));
    const said = warnings.map((line) => /Outage began|The ledger has lost lines/.exec(line)?.[0]);
    expect(said).toEqual(["Outage began", "The ledger has lost lines"]);
  });
});

describe("the access log", () => {
  it("has the query, fractions of a millisecond, the caller's address and traceparent", async () => {
    const gateway = await startGateway();
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await gateway.get(PATH, { headers: { traceparent, "x-forwarded-for": "192.0.2.7" } });
    await gateway.get(PATH, { headers: { traceparent: "00-nonsense" } });
    await gateway.logged('"outcome":"hit"');
    const [miss, hit] = linesOf(gateway, "request");
    expect(miss).toMatchObject({
      query: "listings?areaId=76&limit=5&offset=0",
      client: "127.0.0.1",
      forwardedFor: "192.0.2.7",
      traceparent,
    });
    expect(hit).not.toHaveProperty("traceparent");
    expect(hit).not.toHaveProperty("forwardedFor");
    expect(hit?.["durationMs"]).toBeGreaterThan(0);
    expect(String(hit?.["durationMs"])).toMatch(/^\d+\.\d{1,3}$/);
  });

  it.each([
    ["on", "info", ["request", "request", "request", "request", "request", "upstream call"]],
    ["on", "error", ["request", "request", "request", "request", "request", "upstream call"]],
    // The miss, the mistake, and every second hit.
    ["sampled", "info", ["request", "request", "request", "request", "upstream call"]],
    ["errors", "info", ["request"]],
    ["off", "info", []],
    ["on", "silent", []],
  ])("with log.access: %s and log.level: %s has %o", async (access, level, expected) => {
    const settings = `log: { access: ${access}, level: ${level}, accessSample: 2 }`;
    const gateway = await startGateway({ settings });
    for (const path of [PATH, PATH, "/listings?limit=501", PATH, PATH]) await gateway.get(path);
    await gateway.stop();
    const found = ["request", "upstream call"].flatMap((msg) => linesOf(gateway, msg));
    expect(found.map(({ msg }) => msg)).toEqual(expected);
  });
});

/** Writes, at a signal, what careless libraries write. */
const CARELESS = `
process.on("SIGUSR2", () => {
  process.emitWarning("odd");
  process.emitWarning("too old", "DeprecationWarning", "ODD1");
  Buffer("deprecated by Node");
  console.error("plain %s", "text");
  console.log({ an: "object" });
  console.log("two\\nlines");
});`;

it("every line of the process is JSON, whatever Node and libraries write", async () => {
  const library = pathToFileURL(fileWith(CARELESS, "careless.mjs")).href;
  const fleet = await startFleet({
    NODE_OPTIONS: `--import=${library} --pending-deprecation --trace-warnings`,
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
    OTEL_EXPORTER_OTLP_HEADERS: "not a header",
    OTEL_BSP_SCHEDULE_DELAY: "10",
    OTEL_LOG_LEVEL: "debug",
  });
  const gateway = await fleet.start();
  await gateway.get("/areas?q=a");
  void gateway.kill("SIGUSR2");
  await gateway.says(/"code":"DEP0005"/);
  expect(await gateway.kill("SIGTERM")).toBe(0);
  const lines = gateway.output().trimEnd().split("\n");
  expect(lines.filter((line) => !/^\{.*\}$/.test(line))).toEqual([]);
  const entries = lines.map((line): Record<string, unknown> => JSON.parse(line));
  expect(entries).toEqual(
    expect.arrayContaining(
      [
        { level: "warn", warning: "Warning", text: "odd" },
        { level: "warn", warning: "DeprecationWarning", code: "ODD1", text: "too old" },
        { level: "warn", warning: "DeprecationWarning", code: "DEP0005" },
        { level: "warn", text: "plain text" },
        { level: "info", text: "{ an: 'object' }" },
      ].map((fields) => expect.objectContaining(fields)),
    ),
  );
});
