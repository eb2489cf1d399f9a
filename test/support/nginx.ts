/** Debian's nginx with the configuration of compose.yaml's proxy, a DNS server, and stand-ins for replicas. */
import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished } from "vitest";

import { ask } from "./ask.ts";
import { freePorts, portOf } from "./ports.ts";

/** A DNS server that knows one name. It answers every question of type A with all addresses. */
export async function startDns(name: string, addresses: readonly string[]) {
  const socket = createSocket("udp4");
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  /** The addresses may change. */
  const dns = { port: socket.address().port, addresses };
  const question = Buffer.concat([
    Buffer.from([name.length]),
    Buffer.from(name),
    // The end of the name, type A, class IN.
    Buffer.from([0, 0, 1, 0, 1]),
  ]);
  socket.on("message", (message, { port, address }) => {
    // The id, a response that recursion is available for, one question, so many answers.
    const header = Buffer.from([0, 0, 0x81, 0x80, 0, 1, 0, dns.addresses.length, 0, 0, 0, 0]);
    message.copy(header, 0, 0, 2);
    // A pointer to the name in the question, type A, class IN, one second, four bytes.
    const answers = dns.addresses.map((each) =>
      Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...each.split(".").map(Number)]),
    );
    socket.send(Buffer.concat([header, question, ...answers]), port, address);
  });
  return dns;
}

type Replica = Awaited<ReturnType<typeof startReplica>>;

/** Servers on one port of several addresses. Each answers with its address, and `/refuse` with 503. */
export async function startReplicas(
  first: string,
  ...others: string[]
): Promise<readonly [Replica, ...Replica[]]> {
  const replica = await startReplica(first, 0);
  return [replica, ...(await Promise.all(others.map((address) => startReplica(address, replica.port))))];
}

async function startReplica(address: string, wanted: number) {
  const requests: { url: string; headers: IncomingHttpHeaders }[] = [];
  const server = createServer(({ url = "", headers }, response) => {
    requests.push({ url, headers });
    if (url.startsWith("/refuse")) response.writeHead(503, { "retry-after": "7" });
    response.end(address);
  });
  server.listen(wanted, address);
  await once(server, "listening");
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  };
  onTestFinished(close);
  return { address, port: portOf(server), requests, close };
}

/**
 * nginx with a configuration file, changed only in its ports, its resolver and its directory.
 * @param to its resolver, as in its own setting, and the port of the replicas
 */
export async function startNginx(
  path: string,
  { resolver, port }: { readonly resolver: string; readonly port: number },
) {
  const directory = mkdtempSync(join(tmpdir(), "property-gateway-nginx-"));
  // nginx cannot choose its ports itself.
  const [callers, operators, health] = await freePorts(3);
  const text = readFileSync(path, "utf8")
    .replaceAll("listen 8080", `listen 127.0.0.1:${callers}`)
    .replaceAll("listen 9090", `listen 127.0.0.1:${operators}`)
    .replace("listen 127.0.0.1:8081;", `listen 127.0.0.1:${health};`)
    .replace(/gateway:\d+/g, `gateway:${port}`)
    .replace(/resolver [^;]+ ipv6=off;/, `resolver ${resolver} ipv6=off;`)
    .replaceAll("/tmp/", `${directory}/`);
  const file = join(directory, "nginx.conf");
  writeFileSync(file, text);
  const child = spawn("nginx", ["-c", file, "-e", "stderr", "-g", "daemon off;"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGTERM");
    await exited;
    rmSync(directory, { recursive: true });
  });
  const status = async (): Promise<number> =>
    await ask(`http://127.0.0.1:${health}/`).then(
      (reply) => reply.status,
      () => 0,
    );
  await expect.poll(status).toBe(204);
  return { url: `http://127.0.0.1:${callers}`, adminUrl: `http://127.0.0.1:${operators}` };
}
