/**
 * Asks a running gateway whether it takes requests: the image's HEALTHCHECK, which so needs no curl.
 */
import { get } from "node:http";

import { readSettings } from "../config/load.ts";

/** Less than the HEALTHCHECK's own limit, so that what is said is why. */
const PATIENCE_MS = 3_000;

/**
 * `node src/start.mjs health-check [url]`: exit code 0 where the address answers with success, 1 where it does
 * not, and why on standard error. Without an address it is `/readyz` of the gateway that runs with the same
 * settings as this process.
 */
export async function main(): Promise<void> {
  const url = process.argv[3] ?? readinessUrl();
  if (url === undefined) return;
  const fault = await faultOf(url);
  if (fault === undefined) return;
  process.stderr.write(`${url}: ${fault}\n`);
  process.exitCode = 1;
}

/** @returns `undefined`, with exit code 1 set, where the settings cannot be used */
function readinessUrl(): string | undefined {
  const config = readSettings()?.first.config;
  if (config === undefined) return undefined;
  const { host, port } = config.admin;
  return `http://${reachable(host)}:${port}/readyz`;
}

/** Who listens on every address is asked on loopback. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return host.includes(":") ? `[${host}]` : host;
}

/** @returns what is wrong in a few words; `undefined` where nothing is */
function faultOf(url: string): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  // Not fetch: it takes longer to load than the answer takes to come, and asks no port that it thinks unsafe.
  const request = get(url, { agent: false, signal: AbortSignal.timeout(PATIENCE_MS) }, (response) => {
    const { statusCode: status = 0 } = response;
    resolve(status >= 200 && status < 300 ? undefined : `status ${status}`);
    response.destroy();
  });
  request.on("error", ({ name, message }) => {
    resolve(name === "AbortError" ? `no answer within ${PATIENCE_MS} ms` : message);
  });
  return promise;
}
