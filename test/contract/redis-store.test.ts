import { afterAll, beforeAll } from "vitest";

import { NEVER, openRedisBackend } from "../support/redis-backend.ts";
import { type RedisCluster, type RedisServer, startRedis, startRedisCluster } from "../support/redis.ts";
import { storeContract } from "./store-contract.ts";

let single: RedisServer;
let cluster: RedisCluster;

beforeAll(async () => {
  [single, cluster] = await Promise.all([startRedis(), startRedisCluster()]);
});
afterAll(async () => {
  await Promise.all([single.close(), cluster.close()]);
});

storeContract("Redis, a single server", async (clock) => {
  await single.command("FLUSHALL");
  return openRedisBackend(single.settings, { clock, ...NEVER });
});

storeContract("Redis, a Cluster", async (clock) => {
  await Promise.all(cluster.servers.map((server) => server.command("FLUSHALL")));
  return openRedisBackend(cluster.settings, { clock, ...NEVER });
});
