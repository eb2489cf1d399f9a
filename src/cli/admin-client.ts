/** Asks the admin port of a running gateway. */
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";

import type { Command } from "commander";

import { examineConfig } from "../config/load.ts";
import { type AdminAddress, adminAddress } from "./admin-address.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** Options of every command that asks the admin port. */
export interface AdminOptions extends SettingOptions {
  readonly adminUrl?: string;
  readonly tokenFile?: string;
  readonly json?: true;
}

export interface AdminClient {
  /** @returns the answer's JSON, which the caller knows the form of */
  readonly get: <Answer>(path: string, query?: Query) => Promise<Answer>;
  readonly post: <Answer>(path: string, body: object) => Promise<Answer>;
}

/** Parameters by name; `undefined` is left out. */
type Query = Readonly<Record<string, string | undefined>>;

const PATIENCE_MS = 30_000;

/** Adds what says which gateway to ask, and in which form to print. */
export function addAdminOptions(command: Command): Command {
  addSettingOptions(command, ["config"]);
  return command
    .option(
      "--admin-url <url>",
      "admin port of the gateway; without it admin.host and admin.port of the settings",
    )
    .option("--token-file <file>", "file that holds the admin token; without it ADMIN_TOKEN or the settings")
    .option("--json", "print JSON");
}

/** @throws {CommandFailure} where the address or the token cannot be used; later, where the gateway refuses */
export function createAdminClient(options: AdminOptions): AdminClient {
  const env = environmentWith(options);
  const { readable, usable } = examineConfig({ env, readFile: readText });
  const { host, port } = readable.admin ?? {};
  const own = adminAddress(usable?.config.admin ?? { ...(host && { host }), ...(port && { port }) });
  const { base, trust } = options.adminUrl === undefined ? own : { base: options.adminUrl, trust: {} };
  const url = URL.parse(base);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new CommandFailure(`--admin-url takes an address such as http://127.0.0.1:9090.`, EXIT.usage);
  }
  const tokenFile = options.tokenFile ?? (env["ADMIN_TOKEN"] ? undefined : env["ADMIN_TOKEN_FILE"]);
  const token =
    tokenFile === undefined
      ? (env["ADMIN_TOKEN"] ?? usable?.config.admin.token?.reveal())
      : tokenIn(tokenFile);
  const ask = async <Answer>(target: string, body?: object): Promise<Answer> => {
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
    get: (path, query = {}) => ask(path + searchOf(query)),
    post: (path, body) => ask(path, body),
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

/** Not fetch: it asks no port that it thinks unsafe, and hides why a connection failed. */
function exchange(url: URL, { token, trust, body }: Exchange): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const { request } = url.protocol === "https:" ? https : http;
  const sent = request(
    url,
    {
      method: body === undefined ? "GET" : "POST",
      ...trust,
      agent: false,
      signal: AbortSignal.timeout(PATIENCE_MS),
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
    const why = name === "AbortError" ? `no answer within ${PATIENCE_MS / 1000} s` : message;
    reject(new CommandFailure(`No gateway can be asked at ${url.origin}: ${why}`, EXIT.unreachable));
  }
  sent.on("error", fail);
  sent.end(body && JSON.stringify(body));
  return promise;
}

/** @throws {CommandFailure} with the problem that the gateway answers, or where the answer is of something else */
function checkReply({ status, text }: Reply): void {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new CommandFailure(`The answer has status ${status} and is not JSON: is this the admin port?`);
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
  const more = hint === undefined ? "" : `; ${String(hint)}`;
  return `${String(parameter)}: ${found}expected ${String(expected)}${more}`;
}
