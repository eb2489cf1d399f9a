/** Sends requests to the admin port of a running gateway. */
import { createWriteStream, readFileSync, rmSync } from "node:fs";
import http, { type IncomingMessage } from "node:http";
import https, { type RequestOptions } from "node:https";
import { pipeline } from "node:stream/promises";

import { problemText } from "../admin/page/format.js";
import type { Config } from "../config/config.ts";
import { examineConfig } from "../config/load.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { environmentWith } from "./settings-options.ts";

/** Options of every command that uses the admin port. */
export interface ClientOptions {
  readonly config?: string | undefined;
  readonly adminUrl?: string | undefined;
  readonly tokenFile?: string | undefined;
}

export interface Client {
  /**
   * @param query parameters that are `undefined` are not sent
   * @returns the answer's JSON. The caller names its type; it is not checked.
   */
  readonly get: <Answer extends object>(
    path: string,
    query?: Readonly<Record<string, string | undefined>>,
  ) => Promise<Answer>;
  readonly post: (path: string, body: object) => Promise<object>;
  /** Writes the answer to a POST into a new file that only its owner can read. */
  readonly save: (path: string, file: string) => Promise<void>;
}

/** @returns the address, without a slash at the end, and which certificate the port has to show */
export function adminAddress(
  host: string | null = null,
  port = 9090,
  tls: Config["admin"]["tls"] = null,
): { base: string; trust: RequestOptions } {
  // A gateway that listens on every address is asked on loopback.
  const reachable = host === null || host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  const base = `${tls === null ? "http" : "https"}://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
  // It may come from an authority that Node does not know, and be for the names by which other machines reach the port.
  const only = { allowPartialTrustChain: true, checkServerIdentity: () => undefined };
  return { base, trust: tls === null ? {} : { ca: tls.cert, ...only } };
}

const TIMEOUT_MS = 30_000;
const SAVE_TIMEOUT_MS = 600_000;

/** @throws {CommandFailure} if the address or the token file is unusable. The client's methods reject with it, too. */
export function createClient({ config, adminUrl, tokenFile }: ClientOptions): Client {
  const env = environmentWith({ config });
  const { readable, usable } = examineConfig({ env, readFile: readText });
  const { host, port, tls } = usable?.config.admin ?? { ...readable.admin, tls: null };
  const own = adminAddress(host, port, tls);
  const { base, trust } = adminUrl === undefined ? own : { base: adminUrl.replace(/\/$/, ""), trust: {} };
  if (!/^https?:$/.test(URL.parse(base)?.protocol ?? ""))
    throw new CommandFailure("--admin-url must be an address such as http://127.0.0.1:9090.", EXIT.usage);
  const file = tokenFile ?? (env["ADMIN_TOKEN"] ? undefined : env["ADMIN_TOKEN_FILE"]);
  const token = file ? tokenIn(file) : (env["ADMIN_TOKEN"] ?? usable?.config.admin.token?.reveal());
  const headers = {
    Accept: "application/json",
    "Content-Type": "application/json",
    ...(token && { Authorization: `Bearer ${token}` }),
  };

  async function send(method: string, path: string, body?: string, timeoutMs = TIMEOUT_MS) {
    const options = { ...trust, method, timeoutMs, headers, body };
    return await begin(base + path, options).catch(({ message }: Error) => {
      const text = `The gateway cannot be reached at ${new URL(base).origin}: ${message}`;
      throw new CommandFailure(text, EXIT.unreachable);
    });
  }
  return {
    async get(path, query = {}) {
      const given = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []));
      const search = new URLSearchParams(given).toString();
      return await answerIn(await send("GET", search === "" ? path : `${path}?${search}`));
    },
    post: async (path, body) => await answerIn(await send("POST", path, JSON.stringify(body))),
    async save(path, file) {
      const response = await send("POST", path, undefined, SAVE_TIMEOUT_MS);
      if (response.statusCode !== 200) return void (await answerIn(response));
      // With `wx`, opening fails if the file exists, so an older backup is never overwritten.
      const target = createWriteStream(file, { flags: "wx", mode: 0o600 });
      let isNew = false;
      target.once("open", () => void (isNew = true));
      await pipeline(response, target).catch(({ message }: Error) => {
        if (isNew) rmSync(file, { force: true });
        throw new CommandFailure(`${file} cannot be written: ${message}`);
      });
    },
  };
}

const readText = (path: string): string => readFileSync(path, "utf8");

function tokenIn(file: string): string {
  try {
    return readText(file).trim();
  } catch (error) {
    const why = error instanceof Error ? error.message : file;
    throw new CommandFailure(`The token file cannot be read: ${why}`);
  }
}

interface Exchange extends RequestOptions {
  readonly timeoutMs: number;
  readonly body?: string | undefined;
}

/** @returns the status of the answer. @throws {Error} whose message says why there is none */
export async function statusOf(url: string, options: Exchange): Promise<number> {
  const response = await begin(url, options);
  response.resume();
  return response.statusCode ?? 0;
}

/**
 * Uses node:http, because fetch refuses some ports, hides why a connection failed, and takes long to load.
 * @returns the response as soon as its head is there
 */
async function begin(url: string, { body, timeoutMs, ...options }: Exchange): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { request } = url.startsWith("https:") ? https : http;
  const signal = AbortSignal.timeout(timeoutMs);
  request(url, { ...options, agent: false, signal }, resolve)
    .on("error", ({ name, message }) =>
      reject(new Error(name === "AbortError" ? `no answer within ${timeoutMs} ms` : message)),
    )
    .end(body);
  return await promise;
}

/** @throws {CommandFailure} if the answer is a problem, or is not JSON and so not from an admin port */
async function answerIn<Answer>(response: IncomingMessage): Promise<Answer> {
  const status = response.statusCode ?? 0;
  const text = (await response.setEncoding("utf8").toArray()).join("");
  const isJson = /^application\/(problem\+)?json/.test(response.headers["content-type"] ?? "");
  if (!isJson)
    throw new CommandFailure(`The answer has status ${status} and is not JSON. Is this the admin port?`);
  const answer: Answer = JSON.parse(text);
  if (status >= 200 && status < 300) return answer;
  throw new CommandFailure(problemText({ ...answer, status }));
}
