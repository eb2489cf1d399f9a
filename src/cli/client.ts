/** Sends requests to the admin port of a running gateway. */
import { readFileSync } from "node:fs";
import http from "node:http";
import https, { type RequestOptions } from "node:https";

import type { Config } from "../config/config.ts";
import { examineConfig } from "../config/load.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { environmentWith, type SettingOptions } from "./settings-options.ts";

/** Options of every command that uses the admin port. */
export interface ClientOptions extends SettingOptions {
  readonly adminUrl?: string;
  readonly tokenFile?: string;
}

export interface Client {
  /**
   * @param query parameters that are `undefined` are not sent
   * @returns the answer's JSON. The caller names its type; it is not checked.
   */
  readonly get: <Answer>(
    path: string,
    query?: Readonly<Record<string, string | undefined>>,
  ) => Promise<Answer>;
  readonly post: <Answer>(path: string, body: object) => Promise<Answer>;
}

export interface AdminAddress {
  /** Without a slash at the end. */
  readonly base: string;
  /** Which certificate the port has to show. Empty without TLS. */
  readonly trust: RequestOptions;
}

/** @param admin as far as the settings could be read */
export function adminAddress({
  host = "127.0.0.1",
  port = 9090,
  tls = null,
}: Partial<Pick<Config["admin"], "host" | "port" | "tls">>): AdminAddress {
  // A gateway that listens on every address is asked on loopback.
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  const base = `${tls === null ? "http" : "https"}://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
  // It may come from an authority that Node does not know, and be for the names by which other machines reach the port.
  const only = { allowPartialTrustChain: true, checkServerIdentity: () => undefined };
  return { base, trust: tls === null ? {} : { ca: tls.cert, ...only } };
}

const TIMEOUT_MS = 30_000;

/** @throws {CommandFailure} if the address or the token file is unusable. The client's methods reject with it, too. */
export function createClient(options: ClientOptions): Client {
  const env = environmentWith(options);
  const { readable, usable } = examineConfig({ env, readFile: readText });
  const { host, port } = readable.admin ?? {};
  const own = adminAddress(usable?.config.admin ?? { ...(host && { host }), ...(port && { port }) });
  const { base, trust } = options.adminUrl === undefined ? own : { base: options.adminUrl, trust: {} };
  if (!/^https?:$/.test(URL.parse(base)?.protocol ?? "")) {
    throw new CommandFailure("--admin-url must be an address such as http://127.0.0.1:9090.", EXIT.usage);
  }
  const tokenFile = options.tokenFile ?? (env["ADMIN_TOKEN"] ? undefined : env["ADMIN_TOKEN_FILE"]);
  const token =
    tokenFile === undefined
      ? (env["ADMIN_TOKEN"] ?? usable?.config.admin.token?.reveal())
      : tokenIn(tokenFile);
  const send = async <Answer>(path: string, body?: object): Promise<Answer> => {
    const url = base.replace(/\/$/, "") + path;
    const reply = await exchange(url, {
      ...trust,
      method: body === undefined ? "GET" : "POST",
      timeoutMs: TIMEOUT_MS,
      body: body && JSON.stringify(body),
      headers: {
        Accept: "application/json",
        ...(body && { "Content-Type": "application/json" }),
        ...(token && { Authorization: `Bearer ${token}` }),
      },
    }).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      throw new CommandFailure(
        `The gateway cannot be reached at ${new URL(url).origin}: ${why}`,
        EXIT.unreachable,
      );
    });
    checkReply(reply);
    const answer: Answer = JSON.parse(reply.text);
    return answer;
  };
  return {
    get(path, query = {}) {
      const given = Object.entries(query).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value]],
      );
      const search = new URLSearchParams(given).toString();
      return send(search === "" ? path : `${path}?${search}`);
    },
    post: send,
  };
}

function readText(path: string): string {
  return readFileSync(path, "utf8");
}

function tokenIn(file: string): string {
  try {
    return readText(file).trim();
  } catch (error) {
    throw new CommandFailure(
      `The token file cannot be read: ${error instanceof Error ? error.message : file}`,
    );
  }
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

interface Exchange extends RequestOptions {
  readonly timeoutMs: number;
  readonly body?: string | undefined;
}

/** Uses node:http, because fetch refuses some ports, hides why a connection failed, and takes long to load. */
export function exchange(url: string, { timeoutMs, body, ...options }: Exchange): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const { request } = url.startsWith("https:") ? https : http;
  const sent = request(
    url,
    { ...options, agent: false, signal: AbortSignal.timeout(timeoutMs) },
    (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", fail);
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
      );
    },
  );
  function fail({ name, message }: Error): void {
    reject(new Error(name === "AbortError" ? `no answer within ${timeoutMs} ms` : message));
  }
  sent.on("error", fail);
  sent.end(body);
  return promise;
}

/** @throws {CommandFailure} if the answer is a problem, or is not JSON and so not from an admin port */
function checkReply({ status, text }: Reply): void {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new CommandFailure(`The answer has status ${status} and is not JSON. Is this the admin port?`);
  }
  if (status >= 200 && status < 300) return;
  const { title, detail, errors, problems, remedy }: Partial<Record<string, unknown>> = Object(answer);
  const mistakes = Array.isArray(errors) ? errors.map(mistakeText) : [];
  const lines = [`${status} ${String(title)}`, detail, ...mistakes, ...[problems ?? []].flat(), remedy];
  throw new CommandFailure(lines.filter((line) => typeof line === "string").join("\n"));
}

/** A mistake in one parameter of a caller's URL. */
function mistakeText(mistake: unknown): string {
  const { parameter, value, expected, hint }: Partial<Record<string, unknown>> = Object(mistake);
  const found = value === undefined ? "" : `found ${JSON.stringify(value)}; `;
  return `  ${String(parameter)}: ${found}expected ${String(expected)}${typeof hint === "string" ? `; ${hint}` : ""}`;
}
