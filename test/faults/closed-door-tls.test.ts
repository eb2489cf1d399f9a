/** The gateway sends nothing to an upstream or a Redis whose certificate it cannot verify. */

import { setTimeout } from "node:timers/promises";

import { describe, expect, it, onTestFinished } from "vitest";

import { redisFactory } from "../../src/redis/connect.ts";
import { createSandbox, type Sandbox } from "../../src/sandbox/sandbox.ts";
import { type Authority, type Certificate, createAuthority } from "../support/certificates.ts";
import { fileWith } from "../support/files.ts";
import { CALLER, type LogLine, startGateway, type TestGateway } from "../support/gateway.ts";
import { run } from "../support/process.ts";
import { freePorts } from "../support/ports.ts";
import { redisForTest, startRedisCluster, tlsOptions, type RedisServer } from "../support/redis.ts";
import { problemCode } from "../support/reply.ts";
import { startTlsFront, type TlsFront } from "../support/tls-front.ts";
import { expectShared } from "../support/two-gateways.ts";

const HOUR_MS = 3_600_000;
/** A busy machine may need longer for a handshake than the default timeouts. */
const PATIENT_UPSTREAM = "upstream: { connectTimeout: 60s, totalTimeout: 60s }\nbudget: { maxWait: 60s }";
const PATIENT_REDIS = "redis: { timeout: 10s }";
const AUTHORITY = createAuthority();
const STRANGER = createAuthority("Somebody else's authority");

/** Certificates that must be refused, and the reason in the log. */
const BAD: readonly (readonly [name: string, make: () => Certificate, reason: string])[] = [
  ["for another host", () => AUTHORITY.issue({ hosts: ["other.example"] }), "is for another host name"],
  [
    "that has expired",
    () => AUTHORITY.issue({ from: Date.now() - 2 * HOUR_MS, until: Date.now() - HOUR_MS }),
    "has expired",
  ],
  [
    "that is not valid yet",
    () => AUTHORITY.issue({ from: Date.now() + HOUR_MS, until: Date.now() + 2 * HOUR_MS }),
    "is not valid yet",
  ],
  ["of another authority", () => STRANGER.issue(), "no trusted authority has signed its certificate"],
];

interface Secured {
  readonly gateway: TestGateway;
  readonly sandbox: Sandbox;
  readonly front: TlsFront;
  /** Asks for an answer, a thumbnail or a stream. */
  readonly ask: (way: Way) => ReturnType<TestGateway["get"]>;
}

type Way = "answer" | "thumbnail" | "stream";
const WAYS: readonly Way[] = ["answer", "thumbnail", "stream"];

/** Sets the variable that turns Node's check of certificates off. */
function turnNodesCheckOff(): void {
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  onTestFinished(() => {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  });
}

/** A gateway whose upstream uses TLS with this certificate. */
async function startSecured(certificate: Certificate, env: Record<string, string>): Promise<Secured> {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 50, sold: 50 } });
  onTestFinished(() => sandbox.close());
  const front = await startTlsFront((await sandbox.listen()).port, certificate);
  const url = `https://127.0.0.1:${front.port}`;
  const gateway = await startGateway({
    env: { UPSTREAM_URL: url, UPSTREAM_IMAGE_URL: url, ...env },
    settings: PATIENT_UPSTREAM,
  });
  const id = String([...sandbox.data.listingById.keys()][0]);
  return {
    gateway,
    sandbox,
    front,
    ask: (way) => askFor(gateway, id, way),
  };
}

function askFor(gateway: TestGateway, id: string, way: Way): ReturnType<TestGateway["get"]> {
  if (way === "thumbnail") return gateway.get(`/cache/primary_${id}_10x10.jpg`);
  return gateway.get("/areas?q=Nacka", way === "stream" ? { headers: { "cache-control": "no-store" } } : {});
}

/** Expects that every request fails, that the upstream gets no byte, and that the log says why. */
async function expectNothingSent({ gateway, sandbox, front, ask }: Secured, reason: string): Promise<void> {
  for (const way of WAYS) {
    const reply = await ask(way);
    expect([way, reply.status, problemCode(reply)]).toEqual([way, 502, "upstream-unreachable"]);
    expect(reply.text).not.toMatch(/certificate|CERT|127\.0\.0\.1/);
  }
  expect([front.bytes(), sandbox.requests()]).toEqual([0, []]);
  expect(front.connections()).toBeGreaterThan(0);
  const calls = callsIn(gateway);
  expect(calls.length).toBeGreaterThanOrEqual(WAYS.length);
  for (const { status, note } of calls)
    expect([status, note]).toEqual(["unreachable", expect.stringContaining(reason)]);
}

function callsIn({ log }: TestGateway): LogLine[] {
  return log.filter((line) => line.includes('"msg":"upstream call"')).map((line) => JSON.parse(line));
}

describe("the upstream over TLS, for an answer, a thumbnail and a stream,", () => {
  it("is asked if the authority in UPSTREAM_CA_FILE signed its certificate", async () => {
    const env = { UPSTREAM_CA_FILE: fileWith(STRANGER.cert + AUTHORITY.cert) };
    const { sandbox, ask } = await startSecured(AUTHORITY.issue(), env);
    for (const way of WAYS) expect([way, (await ask(way)).status]).toEqual([way, 200]);
    expect(sandbox.requests()).toHaveLength(WAYS.length);
  });

  it("gets nothing if the authority of its certificate is not in the settings", async () => {
    const secured = await startSecured(AUTHORITY.issue(), {});
    await expectNothingSent(secured, "no trusted authority has signed its certificate");
  });

  it.each(BAD)("gets nothing if its certificate is one %s", async (_name, make, reason) => {
    const secured = await startSecured(make(), { UPSTREAM_CA_FILE: fileWith(AUTHORITY.cert) });
    await expectNothingSent(secured, reason);
  });

  it("gets nothing if its certificate is wrong and NODE_TLS_REJECT_UNAUTHORIZED is 0", async () => {
    turnNodesCheckOff();
    const secured = await startSecured(STRANGER.issue(), { UPSTREAM_CA_FILE: fileWith(AUTHORITY.cert) });
    await expectNothingSent(secured, "no trusted authority has signed its certificate");
  });

  it("gets nothing if it does not use TLS", async () => {
    const sandbox = createSandbox({ ...CALLER, sizes: { listings: 5, sold: 5 } });
    onTestFinished(() => sandbox.close());
    const url = (await sandbox.listen()).url.replace("http:", "https:");
    const gateway = await startGateway({
      env: { UPSTREAM_URL: url, UPSTREAM_IMAGE_URL: url },
      settings: PATIENT_UPSTREAM,
    });
    for (const way of WAYS) expect([way, (await askFor(gateway, "1", way)).status]).toEqual([way, 502]);
    expect(sandbox.requests()).toEqual([]);
    for (const { note } of callsIn(gateway)) expect(note).toMatch(/the TLS handshake failed/);
  });
});

describe("a start with NODE_TLS_REJECT_UNAUTHORIZED=0", () => {
  it.each(["gateway", "config-check"])(
    "is refused by the command %s, which names UPSTREAM_CA_FILE instead",
    async (command) => {
      const started = run([command], { NODE_TLS_REJECT_UNAUTHORIZED: "0" });
      expect(await started.ended).toBe(1);
      expect(started.output()).toMatch(
        /NODE_TLS_REJECT_UNAUTHORIZED: .* expected it unset, .*UPSTREAM_CA_FILE/,
      );
    },
  );
});

interface SecuredRedis {
  readonly redis: RedisServer;
  readonly url: string;
}

/** A Redis with TLS on one port, and without on another one for the test itself. */
async function startSecuredRedis(authority: Authority, certificate: Certificate): Promise<SecuredRedis> {
  const [port = 0] = await freePorts(1);
  const redis = await redisForTest(...tlsOptions(port, authority, certificate));
  return { redis, url: `rediss://127.0.0.1:${port}` };
}

describe("Redis over TLS", () => {
  it("is used if the authority in REDIS_CA_FILE signed its certificate", async () => {
    const { redis, url } = await startSecuredRedis(AUTHORITY, AUTHORITY.issue());
    const env = { REDIS_URL: url, REDIS_CA_FILE: fileWith(AUTHORITY.cert) };
    const gateway = await startGateway({ env, settings: PATIENT_REDIS });
    expect((await gateway.get("/areas?q=Nacka")).status).toBe(200);
    await expect
      .poll(async () => JSON.stringify(await redis.command("KEYS", "*")))
      .toContain("areas?q=Nacka");
  });

  it("is not used if its certificate is wrong: nothing is stored in it, and nothing is sent upstream", async () => {
    const trusted = { REDIS_CA_FILE: fileWith(AUTHORITY.cert) };
    const start = async (certificate: Certificate, env: Record<string, string>) => {
      const { redis, url } = await startSecuredRedis(AUTHORITY, certificate);
      const gateway = await startGateway({
        env: { REDIS_URL: url, BUDGET_MAX_WAIT: "2s", ...env },
        settings: PATIENT_REDIS,
      });
      return { redis, gateway };
    };
    const cases = [
      ...BAD.map(([name, make]) => ({ name, started: start(make(), trusted) })),
      { name: "of an authority that is not set", started: start(AUTHORITY.issue(), {}) },
    ];
    for (const { name, started } of cases) {
      const { cause } = await (await started).gateway.logged('"Outage began"', "Redis");
      expect([name, cause]).toEqual([name, expect.stringMatching(/certificate|altnames/i)]);
    }
    turnNodesCheckOff();
    const stranger = {
      name: "of another authority while Node's check is off",
      started: start(STRANGER.issue(), trusted),
    };
    const { cause } = await (await stranger.started).gateway.logged('"Outage began"', "Redis");
    expect(cause).toMatch(/certificate/);
    // A replica that has never reached Redis has no part of the shared budget.
    const outcomes = [...cases, stranger].map(async ({ name, started }) => {
      const { redis, gateway } = await started;
      const { status } = await gateway.get("/areas?q=Nacka");
      return { name, status, stored: await redis.command("KEYS", "*") };
    });
    for (const { name, ...outcome } of await Promise.all(outcomes)) {
      expect([name, outcome]).toEqual([name, { status: 503, stored: [] }]);
    }
  });

  it("does not end the process if a connection is closed during its handshake", async () => {
    const { redis, url } = await startSecuredRedis(AUTHORITY, AUTHORITY.issue());
    const settings = { url, mode: "single", nodes: [], ca: STRANGER.cert } as const;
    const factory = redisFactory(() => settings, {});
    // An error without a listener fails the run.
    for (let ms = 0; ms < 20; ms += 1) {
      const clients = Array.from({ length: 10 }, () => factory.client());
      await setTimeout(ms);
      for (const client of clients) client.disconnect();
      await expect.poll(async () => await redis.command("INFO", "clients")).toMatch(/connected_clients:1\r/);
    }
  });

  it("is used as a Cluster whose certificates name hosts, not addresses; errors name the cause", async () => {
    const ports: number[] = [];
    const named = AUTHORITY.issue({ hosts: ["localhost"] });
    const cluster = await startRedisCluster(async () => {
      const [port = 0] = await freePorts(1);
      ports.push(port);
      const announced = ["--cluster-announce-hostname", "localhost"];
      const preferred = ["--cluster-preferred-endpoint-type", "hostname", "--tls-cluster", "yes"];
      return [...tlsOptions(port, AUTHORITY, named), ...announced, ...preferred];
    });
    onTestFinished(() => cluster.close());
    const env = { REDIS_URL: `rediss://localhost:${ports[0]}` };
    const settings = "redis: { mode: cluster, timeout: 10s }";
    const gateway = await startGateway({
      env: { ...env, REDIS_CA_FILE: fileWith(AUTHORITY.cert) },
      settings,
    });
    await expectShared(gateway.adminUrl);
    for (const q of ["a", "b", "c", "d", "e", "f"])
      expect((await gateway.get(`/areas?q=${q}`)).status).toBe(200);
    for (const { command } of cluster.servers)
      await expect.poll(async () => await command("DBSIZE")).toBeGreaterThan(0);
    const stranger = await startGateway({
      env: { ...env, REDIS_CA_FILE: fileWith(STRANGER.cert) },
      settings,
    });
    const { cause } = await stranger.logged('"Outage began"', "Redis");
    expect(cause).toMatch(/certificate/);
  });
});
