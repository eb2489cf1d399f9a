/** Starts the servers that are compared. Each one is a process of its own, and all have the same origin. */
import { type ChildProcess, fork, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { freePorts } from "../test/support/ports.ts";

export interface Server {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  /** CPU time so far, in milliseconds. */
  readonly cpuMs: () => number;
  readonly stop: () => Promise<void>;
}

/** What a bare server copies. */
export interface Copied {
  /** The port of the server whose answers it copies. */
  readonly port: number;
  readonly targets: readonly string[];
  readonly headers: readonly string[];
}

function serverOf(name: string, port: number, child: ChildProcess, clean = (): void => undefined): Server {
  const { pid } = child;
  if (pid === undefined) throw new Error(`${name} did not start`);
  return {
    name,
    port,
    pid,
    cpuMs: () => cpuMsOf(pid),
    async stop() {
      const ended = once(child, "exit");
      child.kill();
      await ended;
      clean();
    },
  };
}

async function startNode(
  name: string,
  script: string,
  args: readonly string[],
  message?: object,
): Promise<Server> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = fork(path, args, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  if (message !== undefined) child.send(message);
  const [started]: { port: number }[] = await once(child, "message");
  return serverOf(name, started?.port ?? Number.NaN, child);
}

export const startOrigin = (): Promise<Server> => startNode("origin", "peers/origin.ts", []);

/** Answers stay fresh. One workload has an undocumented parameter. */
const FOR_HITS = `
cache: { ttl: 24h, honourUpstream: false, maxBytes: 2GiB }
query: { allow: [undocumented] }
`;

export interface GatewayProcessOptions {
  /** `info` writes the access log. */
  readonly logLevel?: "warn" | "info";
  /** The text of a settings file. */
  readonly settings?: string;
}

export const startGatewayProcess = (
  originPort: number,
  { logLevel = "warn", settings = FOR_HITS }: GatewayProcessOptions = {},
): Promise<Server> =>
  startNode("gateway", "hits-server.ts", ["gateway", String(originPort), logLevel, settings]);

/** A node:http server that looks the target up in a map, and sends a head and a body that it copied from another server. */
export const startBare = (copied: Copied): Promise<Server> =>
  startNode("bare node:http", "hits-server.ts", ["bare"], copied);

/**
 * @param template a configuration in peers/
 * @returns `undefined` if nginx is not installed
 */
export async function startNginx(originPort: number, template = "nginx.conf"): Promise<Server | undefined> {
  if (!isInstalled("nginx")) return undefined;
  const [port = 0] = await freePorts(1);
  const dir = mkdtempSync(join(tmpdir(), "property-gateway-bench-nginx-"));
  // Its worker must be able to read the directory.
  const user = process.getuid?.() === 0 ? "user root;" : "";
  const config = fillIn(template, dir, { dir, port, originPort, user });
  return await startPeer("nginx", port, dir, "nginx", ["-p", dir, "-c", config]);
}

/**
 * @param template a configuration in peers/
 * @returns `undefined` if Varnish is not installed
 */
export async function startVarnish(
  originPort: number,
  template = "varnish.vcl",
): Promise<Server | undefined> {
  if (!isInstalled("varnishd")) return undefined;
  const [port = 0] = await freePorts(1);
  const dir = mkdtempSync(join(tmpdir(), "property-gateway-bench-varnish-"));
  const config = fillIn(template, dir, { originPort });
  const listen = ["-a", `127.0.0.1:${port}`, "-f", config, "-n", join(dir, "work")];
  mkdirSync(join(dir, "work"));
  // With its own gzip support off, it stores the origin's bodies unchanged, like the other servers.
  const storage = ["-s", "malloc,2G", "-p", "timeout_idle=600", "-p", "http_gzip_support=off"];
  return await startPeer("Varnish", port, dir, "varnishd", ["-F", "-j", "none", ...listen, ...storage]);
}

async function startPeer(
  name: string,
  port: number,
  dir: string,
  command: string,
  args: readonly string[],
): Promise<Server> {
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "ignore"], env: ENV });
  // Peers must be killed when this process ends. Node children end by themselves.
  const kill = (): void => void child.kill();
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  await accepts(port);
  return serverOf(name, port, child, () => rmSync(dir, { recursive: true, force: true }));
}

/** Debian installs servers in a directory that only root has in its PATH. */
const ENV = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin` };

function isInstalled(command: string): boolean {
  if (spawnSync(command, ["-V"], { env: ENV, stdio: "ignore" }).error === undefined) return true;
  console.log(`${command} is not installed, and is left out.`);
  return false;
}

function fillIn(name: string, dir: string, values: Readonly<Record<string, string | number>>): string {
  const template = readFileSync(new URL(`peers/${name}`, import.meta.url), "utf8");
  const path = join(dir, name);
  writeFileSync(
    path,
    template.replaceAll(/\{\{(\w+)\}\}/g, (_, key: string) => String(values[key])),
  );
  return path;
}

const STARTS_WITHIN_MS = 20_000;

async function accepts(port: number): Promise<void> {
  const until = performance.now() + STARTS_WITHIN_MS;
  for (;;) {
    const socket = net.connect(port, "127.0.0.1");
    const { promise, resolve } = Promise.withResolvers<boolean>();
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    const isOpen = await promise;
    socket.destroy();
    if (isOpen) return;
    if (performance.now() > until) throw new Error(`nothing listens on port ${port}`);
    await new Promise((resolveAfter) => void setTimeout(resolveAfter, 50));
  }
}

/** @returns the CPU time that a process and its children have used so far, in milliseconds, as the kernel counts it */
function cpuMsOf(pid: number): number {
  let ms = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const path = `/proc/${pid}/task/${thread}`;
    // A thread or a child may end meanwhile.
    const [nanoseconds = "0"] = readKernelFile(`${path}/schedstat`).split(" ");
    ms += Number(nanoseconds) / 1e6;
    for (const child of readKernelFile(`${path}/children`).split(" ").filter(Boolean))
      ms += cpuMsOf(Number(child));
  }
  return ms;
}

/** @returns the resident memory of a process, shared memory included, in bytes */
export function memoryOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readKernelFile(`/proc/${pid}/status`))?.[1] ?? Number.NaN) * 1024;
}

function readKernelFile(path: string): string {
  try {
    return readFileSync(path, "latin1").trim();
  } catch {
    return "";
  }
}
