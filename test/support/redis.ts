/**
 * Real Redis servers for the tests: on free ports of 127.0.0.1, each in a directory of its own.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Redis, type RedisOptions } from "ioredis";
import { onTestFinished } from "vitest";

import { Secret } from "../../src/config/secrets/secret.ts";
import type { RedisSettings } from "../../src/redis/connect.ts";
import type { Certificate } from "./certificates.ts";
import { fileWith, temporaryDirectory } from "./files.ts";
import { freePorts } from "./ports.ts";

/** How a test reaches a Redis. */
export type RedisAt = Omit<RedisSettings, "url"> & { readonly url: string };
export type RedisServer = Awaited<ReturnType<typeof startRedis>>;

/** @param options further options, as on the command line */
export async function startRedis(...options: string[]) {
  const dir = mkdtempSync(join(tmpdir(), "redis-"));
  const [port = 0, busPort = 0] = await freePorts(2);
  let server: ChildProcess | undefined;
  /** Every server so far: a restart may begin before the previous server has ended. */
  const servers = new Set<ChildProcess>();
  let starting: Promise<void> = Promise.resolve();

  async function kill(): Promise<void> {
    await killed(server);
    server = undefined;
  }
  async function restart(...more: string[]): Promise<void> {
    server = spawnServer("redis-server", [
      ...`--port ${port} --cluster-port ${busPort} --bind 127.0.0.1 --dir ${dir}`.split(" "),
      ...`--appendonly no --enable-debug-command yes --daemonize no --save`.split(" "),
      "",
      ...options,
      ...more,
    ]);
    servers.add(server);
    starting = listening(port, server);
    await starting;
  }

  await restart().catch((error: unknown) => {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  });
  const settings: RedisAt = { url: `redis://127.0.0.1:${port}`, mode: "single", nodes: [] };
  return {
    port,
    settings,
    /** One command, over a connection of its own. */
    command: (...words: (string | number | Buffer)[]) => call({ port }, words),
    /** The same as a user with a password. */
    as: (username: string, password: string, ...words: string[]) => call({ port, username, password }, words),
    /** SIGKILL. */
    kill,
    /** Starts it again after `kill`, at the same port, with the saved data. */
    restart,
    /** SIGSTOP: alive, without answers. */
    freeze: () => void server?.kill("SIGSTOP"),
    /** SIGCONT. */
    thaw: () => void server?.kill("SIGCONT"),
    /** Kills it and removes its directory. */
    close: async () => {
      await starting.catch(() => undefined);
      await Promise.all([...servers].map(killed));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

type Connection = { port: number } & Pick<RedisOptions, "username" | "password" | "enableReadyCheck">;

/** One command, over a connection of its own. */
async function call(options: Connection, words: readonly (string | number | Buffer)[]): Promise<unknown> {
  const client = new Redis({ retryStrategy: () => null, disableClientInfo: true, ...options });
  client.on("error", () => undefined);
  try {
    const [name = "", ...rest] = words;
    return await client.call(String(name), ...rest);
  } finally {
    client.disconnect();
  }
}

/** A server that ends with the test. */
export async function redisForTest(...options: string[]): Promise<RedisServer> {
  const redis = await startRedis(...options);
  onTestFinished(redis.close);
  return redis;
}

export const urlOf = ({ port }: { readonly port: number }): string => `redis://127.0.0.1:${port}`;

export type RedisCluster = Awaited<ReturnType<typeof startRedisCluster>>;

/** @returns options for TLS on one more port. Without TLS, the test itself reaches the server. */
export function tlsOptions(port: number, authority: Certificate, { cert, key }: Certificate): string[] {
  const files = [
    ["--tls-cert-file", cert],
    ["--tls-key-file", key],
    ["--tls-ca-cert-file", authority.cert],
  ].flatMap(([option = "", content = ""]) => [option, fileWith(content)]);
  return ["--tls-port", String(port), "--tls-auth-clients", "no", ...files];
}

/** Three masters that share the slots. */
export async function startRedisCluster(options: () => Promise<string[]> = async () => []) {
  const servers = await Promise.all(
    [0, 1, 2].map(async () =>
      startRedis("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", ...(await options())),
    ),
  );
  const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
  const creation = spawn("redis-cli", ["--cluster", "create", ...addresses, "--cluster-yes"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  await once(creation, "exit");
  for (const { command } of servers)
    await until(async () => String(await command("CLUSTER", "INFO")).includes("cluster_state:ok"));
  const nodes = servers.map(({ port }) => ({ host: "127.0.0.1", port }));
  const settings: RedisAt = { url: `redis://127.0.0.1:${nodes[0]?.port}`, mode: "cluster", nodes };
  return {
    servers,
    settings,
    close: async () => void (await Promise.all(servers.map((server) => server.close()))),
  };
}

const MASTER_NAME = "the-master";

/** A master with a replica, and a Sentinel with a password that watches over them. They end with the test. */
export async function sentinelForTest() {
  const password = "of-the-sentinel";
  const first = await startRedis("--repl-diskless-sync-delay", "0");
  const second = await startRedis("--replicaof", "127.0.0.1", String(first.port));
  const servers = [first, second];
  const [port = 0] = await freePorts(1);
  const config = `port ${port}
bind 127.0.0.1
dir ${temporaryDirectory()}
sentinel monitor ${MASTER_NAME} 127.0.0.1 ${first.port} 1
sentinel down-after-milliseconds ${MASTER_NAME} 500
sentinel failover-timeout ${MASTER_NAME} 2000
requirepass ${password}
`;
  const sentinel = spawnServer("redis-server", [fileWith(config, "sentinel.conf"), "--sentinel"]);
  const ask = (...words: string[]): Promise<unknown> =>
    call({ port, password, enableReadyCheck: false }, ["SENTINEL", ...words]);
  const masterPort = async (): Promise<number> => {
    const answer = await ask("get-master-addr-by-name", MASTER_NAME);
    return Number(Array.isArray(answer) ? answer[1] : 0);
  };
  await until(async () => {
    const replicas = JSON.stringify(await ask("replicas", MASTER_NAME));
    return replicas.includes('"master-link-status","ok"');
  });

  const close = async (): Promise<void> => {
    await killed(sentinel);
    await Promise.all(servers.map((server) => server.close()));
  };
  onTestFinished(close);
  const settings: RedisAt = {
    url: "redis://127.0.0.1",
    mode: "sentinel",
    nodes: [],
    sentinel: { name: MASTER_NAME, nodes: [{ host: "127.0.0.1", port }], password: new Secret(password) },
  };
  return {
    settings,
    /** The server that the Sentinel considers the master now. */
    masterPort,
    /** Kills the master without warning, if there is one. */
    async killMaster() {
      const master = await masterPort();
      await servers.find((server) => server.port === master)?.kill();
    },
    close,
  };
}

/** Polls, for the state of another process. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds().catch(() => false))) await new Promise((resolve) => void setTimeout(resolve, 20));
}

const running = new Set<ChildProcess>();
// Also where a test run is cut short.
process.on("exit", () => {
  for (const server of running) server.kill("SIGKILL");
});

/** What servers wrote last. It says why a server did not start. */
const lastWords = new WeakMap<ChildProcess, string>();
const MOST_WORDS = 1_000;

function spawnServer(program: string, words: readonly string[]): ChildProcess {
  const server = spawn(program, words, { stdio: ["ignore", "pipe", "ignore"] });
  running.add(server);
  server.stdout.on("data", (text: Buffer) => {
    lastWords.set(server, ((lastWords.get(server) ?? "") + text.toString()).slice(-MOST_WORDS));
  });
  server.on("exit", () => running.delete(server));
  return server;
}

async function killed(server: ChildProcess | undefined): Promise<void> {
  if (server === undefined || !running.has(server)) return;
  const exited = once(server, "exit");
  server.kill("SIGKILL");
  await exited;
}

/** Resolves when a server accepts connections, before it may accept commands. Rejects when it ends instead. */
async function listening(port: number, server: ChildProcess): Promise<void> {
  await until(async () => {
    if (server.exitCode !== null) return true;
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect").finally(() => socket.destroy());
    return true;
  });
  if (server.exitCode !== null)
    throw new Error(`Redis ended with ${server.exitCode} instead of listening:\n${lastWords.get(server)}`);
}
