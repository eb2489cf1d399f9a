/** The gateway sends nothing to an upstream or a Redis whose certificate it cannot verify. */

import { setTimeout } from "node:timers/promises";

import { describe, expect, it, onTestFinished, vi } from "vitest";

import { Secret } from "../../src/config/secrets/secret.ts";
import { createRedisClients, type RedisSettings } from "../../src/redis/connect.ts";
import { type Authority, type Certificate, createAuthority } from "../support/certificates.ts";
import { fileWith } from "../support/files.ts";
import { expectShared, LISTING_ID, startGateway } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { redisForTest, startRedisCluster, tlsOptions } from "../support/redis.ts";
import { problemCode } from "../support/ask.ts";
import { startTlsFront } from "../support/tls-front.ts";

const HOUR_MS = 3_600_000;
/** A busy machine may need longer for a handshake than the default timeouts. */
const PATIENT_UPSTREAM = "upstream: { connectTimeout: 60s, totalTimeout: 60s }\nbudget: { maxWait: 60s }";
const PATIENT_REDIS = "redis: { timeout: 10s }";
const AUTHORITY = createAuthority();
const STRANGER = createAuthority("Somebody else's authority");

const UNTRUSTED = /UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|SELF_SIGNED_CERT/;
/** Certificates that must be refused, and the reason in the log. */
const BAD: readonly (readonly [name: string, make: () => Certificate, reason: RegExp])[] = [
  ["for another host", () => AUTHORITY.issue(["other.example"]), /ERR_TLS_CERT_ALTNAME_INVALID/],
  [
    "that has expired",
    () => AUTHORITY.issue(undefined, { until: Date.now() - HOUR_MS / 2 }),
    /CERT_HAS_EXPIRED/,
  ],
  [
    "that is not valid yet",
    () => AUTHORITY.issue(undefined, { from: Date.now() + HOUR_MS / 2 }),
    /CERT_NOT_YET_VALID/,
  ],
  ["of another authority", () => STRANGER.issue(), UNTRUSTED],
];

const WAYS = [
  ["/areas?q=Nacka", {}],
  [`/cache/primary_${LISTING_ID}_10x10.jpg`, {}],
  ["/areas?q=Nacka", { "cache-control": "no-store" }],
] as const;

/** Sets the variable that turns Node's check of certificates off. */
function turnNodesCheckOff(): void {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
}

/** Whether an upstream that uses TLS with this certificate gets the requests of a gateway; where it does not, the log says why. */
async function expectAsked(
  certificate: Certificate | undefined,
  env: Record<string, string>,
  reason?: RegExp,
): Promise<void> {
  const [upstreamPort = 0] = await freePorts(1);
  const front = certificate && (await startTlsFront(upstreamPort, certificate));
  const url = `https://127.0.0.1:${front?.port ?? upstreamPort}`;
  const urls = { UPSTREAM_URL: url, UPSTREAM_IMAGE_URL: url };
  const gateway = await startGateway({ upstreamPort, env: { ...urls, ...env }, settings: PATIENT_UPSTREAM });
  for (const [path, headers] of WAYS) {
    const reply = await gateway.get(path, { headers });
    if (reason === undefined) expect([path, reply.status]).toEqual([path, 200]);
    else {
      expect([path, reply.status, problemCode(reply)]).toEqual([path, 502, "upstream-unreachable"]);
      expect(reply.text).not.toMatch(/certificate|CERT|127\.0\.0\.1/);
    }
  }
  expect(gateway.sandbox.requests()).toHaveLength(reason === undefined ? WAYS.length : 0);
  if (reason === undefined) return;
  if (front !== undefined) expect([front.bytes(), front.connections() > 0]).toEqual([0, true]);
  const calls = gateway.log.filter((line) => line.includes('"msg":"upstream call"'));
  expect(calls.length).toBeGreaterThanOrEqual(WAYS.length);
  for (const call of calls)
    expect(JSON.parse(call)).toMatchObject({ status: "unreachable", note: expect.stringMatching(reason) });
}

describe("the upstream over TLS, for an answer, a thumbnail and a stream,", () => {
  const trusted = (): Record<string, string> => ({ UPSTREAM_CA_FILE: fileWith(AUTHORITY.cert) });

  it("is asked if the authority in UPSTREAM_CA_FILE signed its certificate", async () => {
    await expectAsked(AUTHORITY.issue(), { UPSTREAM_CA_FILE: fileWith(STRANGER.cert + AUTHORITY.cert) });
  });

  it("gets nothing if the authority of its certificate is not in the settings", async () => {
    await expectAsked(AUTHORITY.issue(), {}, UNTRUSTED);
  });

  it.each(BAD)("gets nothing if its certificate is one %s", async (_name, make, reason) => {
    await expectAsked(make(), trusted(), reason);
  });

  it("gets nothing if its certificate is wrong and NODE_TLS_REJECT_UNAUTHORIZED is 0", async () => {
    turnNodesCheckOff();
    await expectAsked(STRANGER.issue(), trusted(), UNTRUSTED);
  });

  it("gets nothing if it does not use TLS", async () => {
    await expectAsked(undefined, {}, /EPROTO|ERR_SSL_/);
  });
});

/** A Redis with TLS on one port, and without on another one for the test itself. */
async function startSecuredRedis(authority: Authority, certificate: Certificate) {
  const [port = 0] = await freePorts(1);
  const redis = await redisForTest(...tlsOptions(port, authority, certificate));
  return { redis, url: `rediss://127.0.0.1:${port}` };
}

const WITHOUT_CHECK = "of another authority while Node's check is off";

// redis-access.test.ts has the opposite: a certificate that is trusted.
describe("Redis over TLS", () => {
  it.each<[name: string, make: () => Certificate, isTrusting?: boolean]>([
    ...BAD.map(([name, make]): [string, () => Certificate] => [name, make]),
    ["of an authority that is not set", () => AUTHORITY.issue(), false],
    [WITHOUT_CHECK, () => STRANGER.issue()],
  ])(
    "stores nothing, and nothing is sent upstream, if its certificate is one %s",
    async (name, make, isTrusting = true) => {
      if (name === WITHOUT_CHECK) turnNodesCheckOff();
      const { redis, url } = await startSecuredRedis(AUTHORITY, make());
      const trusted = isTrusting && { REDIS_CA_FILE: fileWith(AUTHORITY.cert) };
      const env = { REDIS_URL: url, BUDGET_MAX_WAIT: "1ms", ...trusted };
      const gateway = await startGateway({ env, settings: PATIENT_REDIS });
      const { cause } = await gateway.logged('"Outage began"', "Redis");
      expect(cause).toMatch(/certificate|altnames/i);
      // A replica that has never reached Redis has no part of the shared budget.
      expect((await gateway.get("/areas?q=Nacka")).status).toBe(503);
      expect([await redis.command("KEYS", "*"), gateway.sandbox.requests()]).toEqual([[], []]);
    },
  );

  it("does not end the process if a connection is closed during its handshake", async () => {
    const { redis, url } = await startSecuredRedis(AUTHORITY, AUTHORITY.issue());
    const settings: RedisSettings = { url: new Secret(url), mode: "single", nodes: [], ca: STRANGER.cert };
    const clientsOf = createRedisClients(() => settings);
    // An error without a listener fails the run.
    for (let ms = 0; ms < 20; ms += 1) {
      const clients = Array.from({ length: 10 }, () => clientsOf.forCommands());
      await setTimeout(ms);
      for (const client of clients) client.disconnect();
      await expect.poll(async () => await redis.command("INFO", "clients")).toMatch(/connected_clients:1\r/);
    }
  });

  it("is used as a Cluster whose certificates name hosts, not addresses; errors name the cause", async () => {
    const ports: number[] = [];
    const named = AUTHORITY.issue(["localhost"]);
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
    await expectShared(gateway);
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
