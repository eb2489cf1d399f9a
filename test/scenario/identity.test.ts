/**
 * Data belongs to an account. Before, a second gateway for another account on the same Redis (or on another database of
 * it: channels ignore the number) got the first one's answers and spent its budget, and a restart on the same DATA_DIR
 * with another upstream served the old one's answers.
 */
import { beforeAll, describe, expect, it } from "vitest";

import { temporaryDirectory } from "../support/files.ts";
import { CALLER, gatewayEnv, startGateway, type TestGateway } from "../support/gateway.ts";
import { post } from "../support/ask.ts";
import { run } from "../support/process.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";

const ANOTHER = { ...CALLER, callerId: "another-caller" };
/** A busy machine may delay Redis. No gateway may go on without it because of that. */
const settings = "redis: { timeout: 10s }";
const AS_ANOTHER = { UPSTREAM_CALLER_ID: ANOTHER.callerId };

async function statusAndCache(gateway: TestGateway, path: string): Promise<string> {
  const { status, headers } = await gateway.get(path);
  return `${status} ${/; (hit|fwd=\w+)/.exec(String(headers["cache-status"]))?.[1] ?? "none"}`;
}

describe("gateways on one Redis", () => {
  let redis: RedisServer;

  beforeAll(async () => {
    redis = await startRedis();
    return redis.close;
  });

  it("with different accounts share no answers, budget or purges", async () => {
    const address = `redis://127.0.0.1:${redis.port}`;
    const env = { BUDGET: "2/1h" };
    const first = await startGateway({ settings, env: { ...env, REDIS_URL: `${address}/7` } });
    const second = await startGateway({
      settings,
      env: { ...env, ...AS_ANOTHER, REDIS_URL: `${address}/7` },
      sandbox: ANOTHER,
    });
    const third = await startGateway({
      settings,
      env: { ...env, ...AS_ANOTHER, UPSTREAM_SERVICE: "other", REDIS_URL: `${address}/8` },
      sandbox: { ...ANOTHER, service: "other" },
    });
    for (const gateway of [first, second, third]) {
      await expect.poll(async () => await statusAndCache(gateway, "/areas?q=a")).toMatch(/^200/);
      expect(await statusAndCache(gateway, "/areas?q=b")).toBe("200 fwd=miss");
      expect(gateway.sandbox.requests()).toHaveLength(2);
    }
    await post(`${first.adminUrl}/cache/purge`, '{"all":true,"hard":true}');
    for (const gateway of [second, third])
      expect(await statusAndCache(gateway, "/areas?q=b")).toBe("200 hit");
  });

  it("with one account and different upstreams share the budget, but no answers", async () => {
    const env = { BUDGET: "2/1h", REDIS_URL: `redis://127.0.0.1:${redis.port}/9`, UPSTREAM_SERVICE: "moved" };
    const sandbox = { service: "moved" };
    const first = await startGateway({ settings, env, sandbox });
    const second = await startGateway({ settings, env, sandbox });
    await expect.poll(async () => await statusAndCache(first, "/areas?q=a")).toMatch(/^200/);
    await expect.poll(async () => await statusAndCache(second, "/areas?q=a")).toBe("200 fwd=miss");
    expect(await statusAndCache(second, "/areas?q=b")).toMatch(/^(429|503)/);
  });

  it("read Redis twice at a miss: before the claim, and after it for the answer of an earlier flight", async () => {
    await redis.command("flushall");
    const gateway = await startGateway({ settings, env: { REDIS_URL: `redis://127.0.0.1:${redis.port}` } });
    await expect.poll(async () => await statusAndCache(gateway, "/areas?q=nacka")).toMatch(/^200/);
    const count = (operation: string): Promise<number> =>
      gateway.metric(
        `gateway_store_operation_duration_seconds_count{store="redis",operation="${operation}"}`,
      );
    // The answer is stored after it is sent.
    await expect.poll(() => count("set")).toBe(1);
    expect([await count("get"), await count("claim")]).toEqual([2, 1]);
  });

  it("put redis.keyPrefix in front of every key", async () => {
    await redis.command("flushall");
    const env = { REDIS_URL: `redis://127.0.0.1:${redis.port}`, REDIS_KEY_PREFIX: "team-a:" };
    const gateway = await startGateway({ settings, env });
    await expect.poll(async () => await statusAndCache(gateway, "/areas?q=a")).toMatch(/^200/);
    const keys = String(await redis.command("keys", "*")).split(",");
    expect(keys.join()).not.toBe("");
    expect(keys.filter((key) => !key.startsWith("team-a:property-gateway:"))).toEqual([]);
  });
});

describe("a DATA_DIR", () => {
  it("of another account is refused with a remedy, and can be adopted: its calls still count", async () => {
    const DATA_DIR = temporaryDirectory();
    const env = { BUDGET: "2/1h", DATA_DIR };
    const first = await startGateway({ env });
    for (const path of ["/areas?q=a", "/areas?q=b"]) expect((await first.get(path)).status).toBe(200);
    await first.stop();

    await expect(startGateway({ env: { ...env, ...AS_ANOTHER }, sandbox: ANOTHER })).rejects.toThrow(
      /dataDir \(DATA_DIR\).*another account.*npm run adopt-data/,
    );
    const adopted = run(["adopt-data"], { ...gatewayEnv(), ...AS_ANOTHER, DATA_DIR });
    expect(await adopted.ended).toBe(0);
    const second = await startGateway({ env: { ...env, ...AS_ANOTHER }, sandbox: ANOTHER });
    expect(await statusAndCache(second, "/areas?q=a")).toMatch(/^(429|503)/);
  });

  it("of the same account with another upstream keeps the budget and drops the answers", async () => {
    const env = { BUDGET: "2/1h", DATA_DIR: temporaryDirectory() };
    const first = await startGateway({ env });
    expect(await statusAndCache(first, "/areas?q=a")).toBe("200 fwd=miss");
    await first.stop();
    const second = await startGateway({ env });
    expect(await statusAndCache(second, "/areas?q=a")).toBe("200 fwd=miss");
    expect(await statusAndCache(second, "/areas?q=b")).toMatch(/^(429|503)/);
  });
});
