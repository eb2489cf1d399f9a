/** docs/redis.md: the commands that the gateway's user at Redis needs, no more and no fewer. */
import { globSync, readFileSync } from "node:fs";

import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod";

import { problemCode } from "../support/ask.ts";
import { startTwo, type TestGateway } from "../support/gateway.ts";
import { type RedisServer, redisForTest, startRedisCluster } from "../support/redis.ts";

const RULE = /^ACL SETUSER gateway (.*)$/m.exec(readFileSync("docs/redis.md", "utf8"))?.[1]?.split(" ") ?? [];
/** Only a Cluster needs them. */
const OF_CLUSTERS = ["cluster|slots", "cluster|info"];
const COMMANDS = RULE.flatMap((word) => (word.startsWith("+") ? word.slice(1) : []));

async function allow(redis: RedisServer): Promise<void> {
  const rule = RULE.map((word) => (word === ">PASSWORD" ? ">secret" : word));
  await redis.command("ACL", "SETUSER", "gateway", ...rule);
  await redis.command("ACL", "LOG", "RESET");
  await redis.command("CONFIG", "RESETSTAT");
}

/** Everything that replicas do with Redis. */
async function useAll([first, second]: readonly [TestGateway, TestGateway]): Promise<void> {
  const web = { headers: { "x-app-id": "web" } };
  expect((await first.get("/areas?q=a", web)).status).toBe(200);
  await expect
    .poll(async () => (await second.get("/areas?q=a", web)).headers["cache-status"])
    .toContain("hit");
  first.sandbox.hold();
  const joined = [first, second, first].map((gateway) => gateway.get("/listings?areaId=76&limit=500"));
  await first.sandbox.waitForRequests(2);
  first.sandbox.release();
  expect((await Promise.all(joined)).map(({ status }) => status)).toEqual([200, 200, 200]);
  const calls = first.sandbox.requests().length;
  // Each shows what both have spent.
  for (const { budget } of [first, second])
    await expect.poll(async () => (await budget()).windows[0]?.spent).toBe(calls);
  expect((await first.admin("/cache/purge", '{"url":"/areas?q=a"}')).status).toBe(200);
  const callsAfter = async (): Promise<number> => {
    await second.get("/areas?q=a", web);
    return first.sandbox.requests().length;
  };
  await expect.poll(callsAfter).toBe(calls + 1);
  // Both count what an app has spent today.
  const poor = { headers: { "x-app-id": "poor" } };
  expect((await first.get("/sold?areaId=1", poor)).status).toBe(200);
  expect(problemCode(await second.get("/sold?areaId=76", poor))).toBe("quota-exceeded");
  first.sandbox.faults.add({ status: 429, retryAfter: "1", times: 1 });
  await first.get("/areas?q=slow", web);
  await expect.poll(() => second.metric('gateway_circuit_state{circuit="api/all"}')).toBe(2);
  const sends = async (): Promise<number> => (await second.shows("/usage?from=-1h")).totals.sends;
  await expect.poll(sends).toBe(first.sandbox.requests().length);
  for (const path of ["/usage?from=-1h", "/budget", "/status", "/budget/replicas"])
    expect([path, (await first.admin(path)).status]).toEqual([path, 200]);
}

/** @returns the commands that the scripts in src/ call */
function inScripts(): string[] {
  const scripts = globSync("src/**/*.lua").map((path) => readFileSync(path, "utf8"));
  return scripts.flatMap((text) =>
    [...text.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name = ""]) => name.toLowerCase()),
  );
}

async function used(redis: RedisServer): Promise<string[]> {
  const stats = String(await redis.command("INFO", "commandstats"));
  return [...stats.matchAll(/^cmdstat_([\w|-]+):/gm)].map(([, name = ""]) => name);
}

const APPS = "apps: [{ id: web, perDay: 100 }, { id: poor, perDay: 1 }]\n";

describe("the user that docs/redis.md describes", () => {
  it("may do all that gateways do on a single server, and nothing else", async () => {
    const redis = await redisForTest();
    await allow(redis);
    const env = { REDIS_URL: `redis://gateway:secret@127.0.0.1:${redis.port}` };
    const gateways = await startTwo({ redis, env, settings: APPS });
    await useAll(gateways);
    // A value that the gateway cannot read is removed.
    await gateways[0].get("/areas?q=broken");
    // The answer is sent before it is stored. Beside it there may be the claim of its flight.
    const stored = async (): Promise<string[]> => {
      const keys = z.array(z.string()).parse(await redis.command("KEYS", "*areas?q=broken*"));
      return keys.filter((key) => !key.endsWith(":flight"));
    };
    await expect.poll(stored).toHaveLength(1);
    for (const key of await stored()) await redis.command("SET", key, "nonsense");
    await gateways[1].get("/areas?q=broken");
    await expect.poll(() => used(redis)).toContain("unlink");

    expect(await redis.command("ACL", "LOG")).toEqual([]);
    expect(COMMANDS).toEqual(expect.arrayContaining(inScripts()));
    const needed = new Set([...(await used(redis)), ...inScripts(), ...OF_CLUSTERS]);
    expect(COMMANDS.filter((name) => !needed.has(name))).toEqual([]);
  });

  it("may do all that two gateways do on a Cluster, where they share the budget and the circuits, too", async () => {
    const cluster = await startRedisCluster();
    onTestFinished(cluster.close);
    await Promise.all(cluster.servers.map(allow));
    const nodes = cluster.settings.nodes.map(({ host, port }) => `${host}:${port}`);
    const env = { REDIS_URL: `redis://gateway:secret@${nodes[0]}` };
    const settings = `redis: { mode: cluster, timeout: 10s, nodes: ${JSON.stringify(nodes)} }\n${APPS}`;
    await useAll(await startTwo({ redis: { port: 0 }, env, settings }));
    for (const redis of cluster.servers) expect(await redis.command("ACL", "LOG")).toEqual([]);
    const all = await Promise.all(cluster.servers.map(used));
    expect(all.flat()).toEqual(expect.arrayContaining(OF_CLUSTERS));
  });
});
