/**
 * Data belongs to an account. Before, a second gateway for another account on the same Redis (or on another database of
 * it: channels ignore the number) got the first one's answers and spent its budget, and a restart on the same DATA_DIR
 * with another upstream served the old one's answers.
 */
import { describe, expect, it } from "vitest";

import { temporaryDirectory } from "../support/files.ts";
import { CALLER, gatewayEnv, startGateway, type TestGateway } from "../support/gateway.ts";
import { run } from "../support/process.ts";
import { redisForFile } from "../support/redis-backend.ts";
import { urlOf } from "../support/redis.ts";

const ANOTHER = { ...CALLER, callerId: "another-caller" };
const AS_ANOTHER = { UPSTREAM_CALLER_ID: ANOTHER.callerId };

async function statusAndCache(gateway: TestGateway, path: string): Promise<string> {
  const { status, headers } = await gateway.get(path);
  return `${status} ${/; (hit|fwd=\w+)/.exec(String(headers["cache-status"]))?.[1] ?? "none"}`;
}

describe("gateways on one Redis", () => {
  const redisOfFile = redisForFile();

  it("with different accounts share no answers, budget or purges", async () => {
    const redis = redisOfFile();
    const env = { BUDGET: "2/1h", ...AS_ANOTHER };
    const first = await startGateway({ redis, env: { BUDGET: "2/1h" } });
    const second = await startGateway({ redis, env, sandbox: ANOTHER });
    const third = await startGateway({
      redis,
      env: { ...env, UPSTREAM_SERVICE: "other", REDIS_URL: `${urlOf(redis)}/8` },
      sandbox: { ...ANOTHER, service: "other" },
    });
    for (const gateway of [first, second, third]) {
      await expect.poll(async () => await statusAndCache(gateway, "/areas?q=a")).toMatch(/^200/);
      expect(await statusAndCache(gateway, "/areas?q=b")).toBe("200 fwd=miss");
      expect(gateway.sandbox.requests()).toHaveLength(2);
    }
    await first.admin("/cache/purge", '{"all":true,"hard":true}');
    for (const gateway of [second, third])
      expect(await statusAndCache(gateway, "/areas?q=b")).toBe("200 hit");
  });

  it("with one account and different upstreams share the budget, but no answers", async () => {
    const redis = redisOfFile();
    const env = { BUDGET: "2/1h", UPSTREAM_SERVICE: "moved" };
    const sandbox = { service: "moved" };
    const first = await startGateway({ redis, env, sandbox });
    const second = await startGateway({ redis, env, sandbox });
    await expect.poll(async () => await statusAndCache(first, "/areas?q=a")).toMatch(/^200/);
    await expect.poll(async () => await statusAndCache(second, "/areas?q=a")).toBe("200 fwd=miss");
    expect(await statusAndCache(second, "/areas?q=b")).toMatch(/^(429|503)/);
  });

  it("put redis.keyPrefix in front of every key", async () => {
    const redis = redisOfFile();
    const gateway = await startGateway({ redis, env: { REDIS_KEY_PREFIX: "team-a:" } });
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
