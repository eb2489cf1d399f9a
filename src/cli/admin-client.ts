/** Sends requests to the admin port of a running gateway. */
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";

import type { Command } from "commander";

import { examineConfig } from "../config/load.ts";
import { type AdminAddress, adminAddress } from "./admin-address.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** Options of every command that uses the admin port. */
export interface AdminOptions extends SettingOptions {
  readonly adminUrl?: string;
  readonly tokenFile?: string;
  readonly json?: true;
}

export interface AdminClient {
  /** @returns the answer's JSON. The caller names its type; it is not checked. */
  readonly get: <Answer>(path: string, query?: Query) => Promise<Answer>;
  readonly post: <Answer>(path: string, body: object) => Promise<Answer>;
}

/** Parameters by name. Those that are `undefined` are not sent. */
type Query = Readonly<Record<string, string | undefined>>;

const TIMEOUT_MS = 30_000;

/** Adds the options that select the gateway and the output format. */
export function addAdminOptions(command: Command): Command {
  addSettingOptions(command, ["config"]);
  return command
    .option(
      "--admin-url <url>",
      "admin port of the gateway (default: admin.host and admin.port of the settings)",
    )
    .option(
      "--token-file <file>",
      "file that contains the admin token (default: ADMIN_TOKEN or the settings)",
    )
    .option("--json", "print JSON");
}

/** @throws {CommandFailure} if the address or the token file is unusable. The client's methods reject with it, too. */
export function createAdminClient(options: AdminOptions): AdminClient {
  const env = environmentWith(options);
  const { readable, usable } = examineConfig({ env, readFile: readText });
  const { host, port } = readable.admin ?? {};
  const own = adminAddress(usable?.config.admin ?? { ...(host && { host }), ...(port && { port }) });
  const { base, trust } = options.adminUrl === undefined ? own : { base: options.adminUrl, trust: {} };
  const url = URL.parse(base);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new CommandFailure(`--admin-url must be an address such as http://127.0.0.1:9090.`, EXIT.usage);
  }
  const tokenFile = options.tokenFile ?? (env["ADMIN_TOKEN"] ? undefined : env["ADMIN_TOKEN_FILE"]);
  const token =
    tokenFile === undefined
      ? (env["ADMIN_TOKEN"] ?? usable?.config.admin.token?.reveal())
      : tokenIn(tokenFile);
  const send = async <Answer>(target: string, body?: object): Promise<Answer> => {
    const reply = await exchange(new URL(url.pathname.replace(/\/$/, "") + target, url), {
      token,
      trust,
      body,
    });
    checkReply(reply);
    const answer: Answer = JSON.parse(reply.text);
    return answer;
  };
  return {
    get: (path, query = {}) => send(path + searchOf(query)),
    post: (path, body) => send(path, body),
  };
}

function searchOf(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, value);
  return search.size === 0 ? "" : `?${search.toString()}`;
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

interface Exchange {
  readonly token: string | undefined;
  readonly trust: AdminAddress["trust"];
  readonly body: object | undefined;
}

/** Uses node:http, because fetch refuses some ports and hides why a connection failed. */
function exchange(url: URL, { token, trust, body }: Exchange): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const { request } = url.protocol === "https:" ? https : http;
  const sent = request(
    url,
    {
      method: body === undefined ? "GET" : "POST",
      ...trust,
      agent: false,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: {
        Accept: "application/json",
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(token !== undefined && token !== "" && { Authorization: `Bearer ${token}` }),
      },
    },
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
    const why = name === "AbortError" ? `no answer within ${TIMEOUT_MS / 1000} s` : message;
    reject(new CommandFailure(`The gateway cannot be reached at ${url.origin}: ${why}`, EXIT.unreachable));
  }
  sent.on("error", fail);
  sent.end(body && JSON.stringify(body));
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
  if (status < 200 || status > 299) throw new CommandFailure(describeProblem(status, answer));
}

function describeProblem(status: number, problem: unknown): string {
  const text = (name: string): string[] => {
    const value: unknown = typeof problem === "object" && problem ? Reflect.get(problem, name) : undefined;
    return typeof value === "string" ? [value] : [];
  };
  const errors: unknown = typeof problem === "object" && problem ? Reflect.get(problem, "errors") : undefined;
  const lines = Array.isArray(errors) ? errors.map((error) => `  ${describeError(error)}`) : [];
  return [`${status} ${text("title").join("")}`, ...text("detail"), ...lines, ...text("remedy")].join("\n");
}

/** A mistake in one parameter of a caller's URL. */
function describeError(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { parameter, value, expected, hint }: Partial<Record<string, unknown>> = { ...error };
  const found = value === undefined ? "" : `found ${JSON.stringify(value)}; `;
  const more = typeof hint === "string" ? `; ${hint}` : "";
  return `${String(parameter)}: ${found}expected ${String(expected)}${more}`;
}
