/** The processes of a soak: three replicas with Redis, one gateway with a file, and the sandbox behind all. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ask } from "../support/ask.ts";
import { CALLER } from "../support/gateway.ts";
import { start, type Running } from "../support/process.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { createMember, STOP_DELAY_MS, type Member } from "./member.ts";
import { SIZES } from "./truth.ts";

export interface Stack {
  readonly sandbox: Running;
  /** A call of the sandbox's control port. */
  readonly control: (method: string, path: string, body?: unknown) => Promise<unknown>;
  readonly redis: RedisServer;
  readonly replicas: readonly Member[];
  /** The gateway without Redis. */
  readonly single: Member;
  /** The directory of its file; where a small disk may be mounted, one that can be filled. */
  readonly dataDir: string;
  readonly isSmallDisk: boolean;
  /** Writes the settings' file. The gateways read it when they are told to. */
  readonly writeSettings: (settings: string) => void;
  /** Writes the private key's file. The gateways notice by themselves. */
  readonly writeKey: (key: string) => void;
  readonly close: () => Promise<void>;
}

/** The windows of each of the two budgets. The seconds in a name are the window's length. */
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

export async function openStack(now: () => number): Promise<Stack> {
  const directory = mkdtempSync(join(tmpdir(), "property-gateway-soak-"));
  const inDirectory = (name: string): string => join(directory, name);
  const [settings, key, dataDir] = [inDirectory("settings.yaml"), inDirectory("key"), inDirectory("data")];
  const replace = (path: string, content: string): void => {
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  };
  mkdirSync(dataDir);
  replace(settings, settingsWith(30));
  replace(key, CALLER.privateKey);
  const isSmallDisk = spawnSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", dataDir]).status === 0;
  const redis = await startRedis("--dbfilename", "dump-0.rdb");
  const sandbox = startSandbox();
  const [, url = ""] = await sandbox.says(/interface {2}(http:\S+)/);
  const [, controlUrl = ""] = await sandbox.says(/control {4}(http:\S+)/);
  const common = {
    HOST: "127.0.0.1",
    CONFIG_FILE: settings,
    UPSTREAM_URL: url,
    UPSTREAM_IMAGE_URL: url,
    UPSTREAM_SERVICE: CALLER.service,
    UPSTREAM_CALLER_ID: CALLER.callerId,
    UPSTREAM_PRIVATE_KEY_FILE: key,
    UPSTREAM_REFERRER: "https://www.agency.test/",
    BUDGET: WINDOWS.map(({ limit, windowMs }) => `${limit}/${windowMs / 1_000}s`).join(","),
    LOG_LEVEL: "warn",
    LOG_ACCESS: "off",
    STOP_DELAY: `${STOP_DELAY_MS}ms`,
  };
  const shared = {
    ...common,
    UPSTREAM_USER_AGENT: USER_AGENTS.replicas,
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    REPLICAS: "3",
    DATA_DIR: "",
  };
  const members: Member[] = [];
  for (const name of ["replica 1", "replica 2", "replica 3"])
    members.push(createMember(name, await fixedPorts(), shared, now));
  const own = { ...common, UPSTREAM_USER_AGENT: USER_AGENTS.single, DATA_DIR: dataDir };
  const single = createMember("single", await fixedPorts(), own, now);
  await Promise.all([...members, single].map((member) => member.begin()));
  return {
    sandbox,
    async control(method, path, body) {
      const reply = await ask(controlUrl + path, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (reply.status !== 200) throw new Error(`the sandbox said ${reply.status} ${reply.text}`);
      return reply.json();
    },
    redis,
    replicas: members,
    single,
    dataDir,
    isSmallDisk,
    writeSettings: (content) => replace(settings, content),
    writeKey: (content) => replace(key, content),
    async close() {
      await Promise.all([...members, single].map((member) => member.kill()));
      sandbox.child.kill("SIGKILL");
      await Promise.all([sandbox.ended, redis.close()]);
      if (isSmallDisk) spawnSync("umount", ["--lazy", dataDir]);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function startSandbox(): Running {
  const options = {
    port: 0,
    "control-port": 0,
    service: CALLER.service,
    "caller-id": CALLER.callerId,
    "private-key": CALLER.privateKey,
    seed: 1,
    ...SIZES,
  };
  return start(["sandbox", ...Object.entries(options).map(([name, value]) => `--${name}=${value}`)]);
}

/** Below the ports that systems give to outgoing connections, so that they stay free while a process restarts. */
let nextPort = 20_000 + (process.pid % 900) * 10;

async function fixedPorts(): Promise<[number, number]> {
  const ports: number[] = [];
  while (ports.length < 2) {
    nextPort += 1;
    if (await isFree(nextPort)) ports.push(nextPort);
  }
  return [ports[0] ?? 0, ports[1] ?? 0];
}

function isFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = net.createServer();
  server.once("error", () => resolve(false));
  server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  return promise;
}
