/** How a process starts and stops: its readiness, and the requests that wait. */
import http from "node:http";

import { describe, expect, it, onTestFinished } from "vitest";

import { redisForTest } from "../support/redis.ts";
import { startFleet } from "../support/fleet.ts";
import { CALLER, expectShared, startGateway, startTwo, type TestGateway } from "../support/gateway.ts";

async function readyz({ admin }: Pick<TestGateway, "admin">): Promise<string> {
  const { status, text } = await admin("/readyz");
  return `${status} ${text.trim()}`;
}

/** A stop without Redis waits for this timeout, so keep it short. */
const IMPATIENT = "redis: { timeout: 500ms }\n";

describe("a process that starts", () => {
  it("is ready as soon as it has joined the shared budget, and stays ready while Redis is down", async () => {
    const redis = await redisForTest();
    await redis.kill();
    const gateway = await startGateway({ redis, settings: IMPATIENT });
    const { admin, get, log } = gateway;
    expect(await readyz(gateway)).toMatch(/^503 starting: /);
    expect((await admin("/livez")).status).toBe(200);
    await redis.restart();
    await expect.poll(() => readyz(gateway)).toBe("200 ready");
    expect((await get("/areas?q=Nacka")).status).toBe(200);
    await redis.close();
    const twice = /"what":"Redis".*"Outage began"[^]*"Outage over"[^]*"Outage began"/;
    await expect.poll(() => log.join("")).toMatch(twice);
    expect(await readyz(gateway)).toBe("200 ready");
  });

  it("is not ready in a rollout while Redis is away, unless server.readyWithout says so", async () => {
    const redis = await redisForTest();
    const env = { REPLICAS: "3" };
    const others = await startTwo({ redis, env, settings: IMPATIENT });
    for (const gateway of others) await expect.poll(() => readyz(gateway)).toBe("200 ready");
    await redis.kill();
    for (const { logged } of others) await logged('"what":"Redis"', "Outage began");

    const successor = await startGateway({ redis, env, settings: IMPATIENT });
    const settings = `${IMPATIENT}server: { readyWithout: redis }`;
    const patient = await startGateway({ redis, env, settings });
    expect(await readyz(patient)).toBe("200 ready");
    expect(await readyz(successor)).toMatch(
      /^503 starting: this replica has not joined the shared budget, .*readyWithout/,
    );
    for (const gateway of others) expect(await readyz(gateway)).toBe("200 ready");
  });
});

describe("a process that stops", () => {
  it("still serves during server.stopDelay, then accepts nothing new, finishes requests in flight, and ends", async () => {
    const fleet = await startFleet({ STOP_DELAY: "3s" });
    const replica = await fleet.start();
    const agent = new http.Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    expect((await replica.get("/areas?q=before", { agent })).headers.connection).toBe("keep-alive");
    // An idle kept connection must not hold up the end.
    const idle = new http.Agent({ keepAlive: true });
    onTestFinished(() => idle.destroy());
    await replica.get("/areas?q=before", { agent: idle });
    fleet.sandbox.hold();
    const inFlight = replica.get("/listings?limit=3");
    await fleet.sandbox.waitForRequests(2);

    void replica.kill("SIGTERM");
    await replica.says(/"signal":"SIGTERM"/);
    expect(await readyz(replica)).toBe("503 stopping");
    expect((await replica.admin("/livez")).status).toBe(200);
    const late = await replica.get("/areas?q=before", { agent });
    expect([late.status, late.headers.connection]).toEqual([200, "close"]);
    const tooLate = (): Promise<string> => replica.get("/nowhere").then(() => "taken", String);
    await expect.poll(tooLate).toMatch(/ECONNREFUSED|ECONNRESET/);
    fleet.sandbox.release();
    const { status, headers } = await inFlight;
    expect([status, headers.connection]).toEqual([200, "close"]);
    expect(await replica.ended).toBe(0);
    await expect(replica.admin("/livez")).rejects.toThrow();
    // The log is complete.
    expect(replica.output().trimEnd().split("\n").at(-1)).toContain('"msg":"stopped"');
  });

  it("finishes a stream, and answers 503 to requests that still wait after server.drainTimeout", async () => {
    // A slow upstream must not keep the process from stopping.
    const settings = "server: { drainTimeout: 700ms }\nbudget: { maxWait: 2h }";
    const fleet = await startFleet({ BUDGET: "2/1h" }, { settings });
    const replica = await fleet.start();
    fleet.sandbox.hold();
    const streamed = replica.get("/listings?limit=3", { headers: { "cache-control": "no-store" } });
    await fleet.sandbox.waitForRequests(1);
    const inFlight = replica.get("/areas?q=in-flight");
    await fleet.sandbox.waitForRequests(2);
    const queued = replica.get("/areas?q=queued");
    await expect.poll(async () => (await replica.budget()).queue.interactive).toBe(1);
    void replica.kill("SIGTERM");
    await replica.says(/"signal":"SIGTERM"/);
    fleet.sandbox.release(1);
    expect((await streamed).status).toBe(200);
    for (const { status, headers, json } of await Promise.all([inFlight, queued])) {
      expect([status, headers.connection, headers["retry-after"]]).toEqual([503, "close", "1"]);
      expect(json()).toMatchObject({ type: "urn:property-gateway:problem:shutting-down" });
    }
    expect(await replica.ended).toBe(0);
    expect(replica.output().match(/"problem":"shutting-down"/g)).toHaveLength(2);
    expect(fleet.arrivals()).toHaveLength(2);
  });

  it("skips server.stopDelay on SIGINT, and ends at once on a second SIGINT", async () => {
    const fleet = await startFleet({ STOP_DELAY: "1h" });
    const [patient, impatient] = await Promise.all([fleet.start(), fleet.start()]);
    expect(await patient.kill("SIGINT")).toBe(0);

    fleet.sandbox.hold();
    const broken = impatient.get("/listings?limit=3");
    broken.catch(() => undefined);
    await fleet.sandbox.waitForRequests(1);
    void impatient.kill("SIGINT");
    await impatient.says(/"signal":"SIGINT"/);
    expect(await impatient.kill("SIGINT")).toBe(130);
    await expect(broken).rejects.toThrow();
  });

  it("ends in order although Redis does not answer, also with a long redis.timeout", async () => {
    const redis = await redisForTest();
    const replica = await (await startFleet({}, { redis, settings: "redis: { timeout: 10s }" })).start();
    await expectShared(replica);
    redis.freeze();
    expect(await replica.kill("SIGTERM")).toBe(0);
  });

  it("stores the answer of a call in flight for the other replicas, even if its caller has hung up", async () => {
    const redis = await redisForTest();
    const env = { REPLICAS: "2", BUDGET: "1000/1m" };
    const other = await startGateway({ redis, env });
    const { sandbox } = other;
    const old = await (await startFleet(env, { redis, beside: other })).start();
    await expectShared(old, other);
    sandbox.hold();
    const hangUp = new AbortController();
    const left = old.get("/areas?q=paid-for", { signal: hangUp.signal });
    left.catch(() => undefined);
    await sandbox.waitForRequests(1);
    hangUp.abort();
    await old.says(/"outcome":"abandoned"/);
    void old.kill("SIGTERM");
    await old.says(/"signal":"SIGTERM"/);
    sandbox.release();
    expect(await old.ended).toBe(0);
    const reply = await other.get("/areas?q=paid-for");
    expect(reply.headers["cache-status"]).toMatch(/; hit; .*detail=redis/);
    expect(sandbox.requests()).toHaveLength(1);
  });
});

/** On SIGUSR2 the process throws or rejects without a handler. */
function failing(how: "throw" | "reject"): string {
  const fail = how === "throw" ? "setTimeout(() => { throw failure })" : "void Promise.reject(failure)";
  const script =
    `const failure = Object.assign(new Error("the roof fell in, with ${CALLER.privateKey} and hash=0123456789"), ` +
    `{ url: "https://api.example.com/?unique=abc", command: { args: ["secret value"] } });` +
    `process.on("SIGUSR2", () => { ${fail} });`;
  return `--import=data:text/javascript,${encodeURIComponent(script)}`;
}

it.each([
  ["throw", "while it serves"],
  ["reject", "while it stops"],
] as const)(
  "a process with an uncaught error logs it, finishes requests in flight, and ends with exit code 1: %s, %s",
  async (how, when) => {
    const fleet = await startFleet({ NODE_OPTIONS: failing(how), STOP_DELAY: "500ms" });
    const replica = await fleet.start();
    fleet.sandbox.hold();
    const inFlight = replica.get("/listings?limit=3");
    await fleet.sandbox.waitForRequests(1);
    if (when === "while it stops") {
      void replica.kill("SIGTERM");
      await replica.says(/"signal":"SIGTERM"/);
    }
    void replica.kill("SIGUSR2");
    await replica.says(/the roof fell in/);
    expect(await readyz(replica)).toBe("503 stopping");
    fleet.sandbox.release();
    expect((await inFlight).status).toBe(200);
    expect(await replica.ended).toBe(1);
    expect(replica.output()).toContain('"msg":"stopped"');
    const line = /^.*the roof fell in.*$/m.exec(replica.output())?.[0] ?? "";
    expect(JSON.parse(line)).toMatchObject({
      level: "fatal",
      origin: how === "throw" ? "uncaughtException" : "unhandledRejection",
      error: { type: "Error", stack: expect.stringContaining("at ") },
    });
    for (const secret of [CALLER.privateKey, "0123456789", "unique=", "secret value"])
      expect(replica.output()).not.toContain(secret);
  },
);
