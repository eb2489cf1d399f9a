/**
 * Redis as companies run it: users with passwords of their own, password files that change, and client
 * certificates.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { createAuthority } from "../support/certificates.ts";
import { temporaryDirectory } from "../support/files.ts";
import { command } from "../support/command.ts";
import { gatewayEnv, startGateway, startShared, type TestGateway } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { redisForFile } from "../support/redis-backend.ts";
import { redisForTest, urlOf } from "../support/redis.ts";

const SECRETS = ["first-pass", "second-pass"];

/** Files in a directory of their own, which may change. */
function writeFiles(files: Readonly<Record<string, string>>): (name: string, content?: string) => string {
  const directory = temporaryDirectory();
  const write = (name: string, content?: string): string => {
    if (content !== undefined) writeFileSync(join(directory, name), content);
    return join(directory, name);
  };
  for (const [name, content] of Object.entries(files)) write(name, content);
  return write;
}

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

describe("a Redis user with a password in a file", () => {
  it("logs in, and logs in again with the new password when the file changes", async () => {
    const redis = await redisForTest();
    await redis.command("ACL", "SETUSER", "gateway", "on", ">first-pass", "~*", "&*", "+@all");
    await redis.command("ACL", "SETUSER", "default", "off");
    const file = writeFiles({ password: "first-pass\n" });
    const gateway = await start({
      REDIS_URL: `redis://gateway@127.0.0.1:${redis.port}`,
      REDIS_PASSWORD_FILE: file("password"),
    });
    await expectStored(gateway, "first", (...words) => redis.as("gateway", "first-pass", ...words));

    // Redis closes the connections of a user that it deletes, as when a password is withdrawn.
    await redis.as("gateway", "first-pass", "ACL", "SETUSER", "gateway", "resetpass", ">second-pass");
    await redis.as("gateway", "second-pass", "CLIENT", "KILL", "TYPE", "normal");
    file("password", "second-pass\n");
    await gateway.logged("The new content is in use.");
    await expectStored(gateway, "second", (...words) => redis.as("gateway", "second-pass", ...words));
  });
});

describe("a Redis that requires a client certificate", () => {
  it("gets the gateway's certificate", async () => {
    const authority = createAuthority();
    const [server, client] = [authority.issue(), authority.issue()];
    const file = writeFiles({
      "ca.pem": authority.cert,
      "server.pem": server.cert,
      "server-key.pem": server.key,
      "client.pem": client.cert,
      "client-key.pem": client.key,
    });
    const [port = 0] = await freePorts(1);
    const redis = await redisForTest(
      ...`--tls-port ${port} --tls-auth-clients yes --tls-ca-cert-file ${file("ca.pem")}`.split(" "),
      ...`--tls-cert-file ${file("server.pem")} --tls-key-file ${file("server-key.pem")}`.split(" "),
    );
    const gateway = await start({
      REDIS_URL: `rediss://127.0.0.1:${port}`,
      REDIS_CA_FILE: file("ca.pem"),
      REDIS_CERT_FILE: file("client.pem"),
      REDIS_KEY_FILE: file("client-key.pem"),
    });
    await expectStored(gateway, "secured", redis.command);
  });
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
