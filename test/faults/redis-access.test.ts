/**
 * Redis as companies run it: users with passwords of their own, password files that change, and client
 * certificates.
 */
import { writeFileSync } from "node:fs";

import { describe, expect, it, onTestFinished } from "vitest";

import { createAuthority } from "../support/certificates.ts";
import { fileWith } from "../support/files.ts";
import { command } from "../support/command.ts";
import { gatewayEnv, startGateway, startShared, type TestGateway } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { redisForFile } from "../support/redis-backend.ts";
import { redisForTest, tlsOptions, urlOf } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const SECRETS = ["first-pass", "second-pass"];

/** Starts a gateway. No secret may be in its log. */
async function start(env: Readonly<Record<string, string>>): Promise<TestGateway> {
  const gateway = await startGateway({ env });
  onTestFinished(() => {
    for (const secret of SECRETS) expect(gateway.log.join("")).not.toContain(secret);
  });
  return gateway;
}

/**
 * Asks new questions until an answer is in Redis: one that arrives while the gateway connects again stays in its memory.
 * @param keys lists the keys in Redis
 */
async function expectStored(
  gateway: TestGateway,
  word: string,
  keys: (...words: string[]) => Promise<unknown>,
): Promise<void> {
  let asked = 0;
  await expect
    .poll(async () => {
      await gateway.get(`/areas?q=${word}-${++asked}`);
      return JSON.stringify(await keys("KEYS", `*q=${word}*`));
    })
    .toContain(word);
}

it("a Redis user with a password in a file logs in, and logs in again with the new password when the file changes", async () => {
  const redis = await redisForTest();
  await redis.command("ACL", "SETUSER", "gateway", "on", ">first-pass", "~*", "&*", "+@all");
  await redis.command("ACL", "SETUSER", "default", "off");
  const file = fileWith("first-pass\n", "password");
  const gateway = await start({
    REDIS_URL: `redis://gateway@127.0.0.1:${redis.port}`,
    REDIS_PASSWORD_FILE: file,
  });
  await expectStored(gateway, "first", (...words) => redis.as("gateway", "first-pass", ...words));

  // Redis closes the connections of a user that it deletes, as when a password is withdrawn.
  await redis.as("gateway", "first-pass", "ACL", "SETUSER", "gateway", "resetpass", ">second-pass");
  await redis.as("gateway", "second-pass", "CLIENT", "KILL", "TYPE", "normal");
  writeFileSync(file, "second-pass\n");
  await gateway.logged("The new content is in use.");
  await expectStored(gateway, "second", (...words) => redis.as("gateway", "second-pass", ...words));
});

it("a new password is no outage, even if a new connection needs more time than a command has", async () => {
  const redis = await redisForTest();
  await redis.command("ACL", "SETUSER", "gateway", "on", ">first-pass", ">second-pass", "~*", "&*", "+@all");
  const proxy = await startTcpProxy(redis.port);
  const file = fileWith("first-pass", "password");
  const env = { REDIS_URL: `redis://gateway@127.0.0.1:${proxy.port}`, REDIS_PASSWORD_FILE: file };
  const gateway = await startShared({ redis, env, settings: "redis: { timeout: 400ms }" });
  proxy.delay(150);
  const list = async () => String(await redis.command("CLIENT", "LIST"));
  const ids = async (): Promise<string[]> => (await list()).match(/^id=\d+/gm) ?? [];
  const before = await ids();
  // Two of the gateway, and that of this test.
  expect(before).toHaveLength(3);
  writeFileSync(file, "second-pass");
  await expect.poll(async () => (await ids()).filter((id) => before.includes(id))).toEqual([]);
  expect(gateway.log.filter((line) => line.includes("Outage"))).toEqual([]);
});

it("a Redis that requires a client certificate gets the gateway's certificate", async () => {
  const authority = createAuthority();
  const client = authority.issue();
  const [port = 0] = await freePorts(1);
  const tls = tlsOptions(port, authority, authority.issue());
  const redis = await redisForTest(...tls, "--tls-auth-clients", "yes");
  const gateway = await start({
    REDIS_URL: `rediss://127.0.0.1:${port}`,
    REDIS_CA_FILE: fileWith(authority.cert),
    REDIS_CERT_FILE: fileWith(client.cert),
    REDIS_KEY_FILE: fileWith(client.key),
  });
  await expectStored(gateway, "secured", redis.command);
});

describe("Redis' eviction policy", () => {
  const redis = redisForFile();

  it.each([
    ["allkeys-lru", "warning", 1],
    ["volatile-ttl", "warning", 1],
    ["volatile-lfu", "ok", 0],
    ["noeviction", "ok", 0],
  ])("%s gets %s in doctor, and in the log and the metric", async (policy, level, mayEvict) => {
    await redis().command("CONFIG", "SET", "maxmemory-policy", policy);
    const gateway = await startGateway({ redis: redis() });
    await expect.poll(() => scraped(gateway)).toContain(`gateway_redis_may_evict_budget ${mayEvict}\n`);
    const warned = gateway.log.filter((line) => line.includes("Redis may evict the budget"));
    expect(warned.map((line) => line.includes(policy))).toEqual(mayEvict === 1 ? [true] : []);
    const { output } = await command(["doctor"], {
      ...gatewayEnv(gateway.sandboxUrl),
      REDIS_URL: urlOf(redis()),
    });
    expect(output).toMatch(new RegExp(`^${level} +Redis .*${policy}`, "m"));
  });

  it("is unknown if the user may not read it, which is no outage", async () => {
    await redis().command("ACL", "SETUSER", "gateway", "on", ">first-pass", "~*", "&*", "+@all", "-info");
    const env = { REDIS_URL: `redis://gateway:first-pass@127.0.0.1:${redis().port}` };
    const gateway = await startShared({ redis: redis(), env });
    expect(gateway.log.filter((line) => line.includes("Outage began"))).toEqual([]);
    expect(await scraped(gateway)).not.toMatch(/^gateway_redis_may_evict_budget/m);
  });
});

const scraped = async ({ admin }: TestGateway): Promise<string> => (await admin("/metrics")).text;
