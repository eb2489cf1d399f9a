/** The processes of a soak: three replicas with Redis, one gateway with a file, and the sandbox behind all. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ask } from "../support/ask.ts";
import { CALLER, gatewayEnv } from "../support/gateway.ts";
import { start } from "../support/process.ts";
import { startRedis, urlOf } from "../support/redis.ts";
import { mountDisk } from "../support/small-disk.ts";
import { createMember, STOP_DELAY_MS } from "./member.ts";
import { SIZES } from "./truth.ts";

export type Stack = Awaited<ReturnType<typeof openStack>>;

/** The windows of each of the two budgets. */
export const WINDOWS = [
  { limit: 30, windowMs: 10_000 },
  { limit: 120, windowMs: 60_000 },
] as const;
export const IMAGE_WINDOW = { limit: 60, windowMs: 60_000 } as const;
export const USER_AGENTS = { replicas: "soak-replicas/1.0", single: "soak-single/1.0" } as const;

export function settingsWith(listingsTtlS: number): string {
  return `
cache: { ttl: { listings: ${listingsTtlS}s, sold: 60s, records: 30s, areas: 2m, images: 5m }, staleWhileRevalidate: 5s, maxBytes: 16MiB, maxDiskBytes: 8MiB }
budget: { images: ${IMAGE_WINDOW.limit}/1m, degradedFor: 1m }
`;
}

export async function openStack() {
  const directory = mkdtempSync(join(tmpdir(), "property-gateway-soak-"));
  const [settings = "", key = "", dataDir = ""] = ["settings.yaml", "key", "data"].map((name) =>
    join(directory, name),
  );
  const replace = (path: string, content: string): void => {
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  };
  mkdirSync(dataDir);
  replace(settings, settingsWith(30));
  replace(key, CALLER.privateKey);
  const isSmallDisk = mountDisk(dataDir, "8m");
  const redis = await startRedis("--dbfilename", "dump-0.rdb");
  const { service, callerId, privateKey } = CALLER;
  const account = { service, "caller-id": callerId, "private-key": privateKey };
  const options = { port: 0, "control-port": 0, seed: 1, ...account, ...SIZES };
  const words = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  const sandbox = start(["sandbox", ...words]);
  const [, url = ""] = await sandbox.says(/interface {2}(http:\S+)/);
  const [, controlUrl = ""] = await sandbox.says(/control {4}(http:\S+)/);
  const { UPSTREAM_PRIVATE_KEY: _, CACHE_LIFETIMES: _learned, ...ofTests } = gatewayEnv(url);
  const common = {
    ...ofTests,
    CONFIG_FILE: settings,
    UPSTREAM_PRIVATE_KEY_FILE: key,
    BUDGET: WINDOWS.map(({ limit, windowMs }) => `${limit}/${windowMs / 1_000}s`).join(","),
    LOG_LEVEL: "warn",
    LOG_ACCESS: "off",
    STOP_DELAY: `${STOP_DELAY_MS}ms`,
  };
  const shared = { UPSTREAM_USER_AGENT: USER_AGENTS.replicas, REDIS_URL: urlOf(redis), REPLICAS: "3" };
  const replicas = [1, 2, 3].map((number) => createMember(`replica ${number}`, { ...common, ...shared }));
  const own = { UPSTREAM_USER_AGENT: USER_AGENTS.single, DATA_DIR: dataDir };
  const single = createMember("single", { ...common, ...own });
  const members = [...replicas, single];
  await Promise.all(members.map((member) => member.begin()));
  return {
    /** A call of the sandbox's control port. */
    control: async (method: string, path: string, body?: unknown) => {
      const sent = body !== undefined && { body: JSON.stringify(body) };
      const reply = await ask(controlUrl + path, { method, ...sent });
      if (reply.status !== 200) throw new Error(`the sandbox said ${reply.status} ${reply.text}`);
      return reply.json();
    },
    redis,
    replicas,
    /** The gateway without Redis. */
    single,
    /** The directory of its file. It is a small disk that can be filled, if one could be mounted. */
    dataDir,
    isSmallDisk,
    /** Writes the settings' file. The gateways read it when they are told to. */
    writeSettings: (content: string) => replace(settings, content),
    /** Writes the private key's file. The gateways notice by themselves. */
    writeKey: (content: string) => replace(key, content),
    async close() {
      await Promise.all(members.map((member) => member.kill()));
      sandbox.child.kill("SIGKILL");
      await Promise.all([sandbox.ended, redis.close()]);
      if (isSmallDisk) spawnSync("umount", ["--lazy", dataDir]);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
