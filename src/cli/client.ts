/** Sends requests to the admin port of a running gateway. */
import { createWriteStream, readFileSync, rmSync } from "node:fs";
import http, { type IncomingMessage } from "node:http";
import https, { type RequestOptions } from "node:https";
import { finished, pipeline } from "node:stream/promises";

import { problemText } from "../admin/page/format.js";
import { toAdmin } from "../config/config.ts";
import type { Environment } from "../config/env.ts";
import { examineConfig } from "../config/load.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { environmentWith } from "./settings-options.ts";

/** The options of a command, and its argument as `argument`. */
export type Given = Readonly<Record<string, string | undefined>>;

/**
 * How to reach the admin port of the gateway with these settings. If they have mistakes, the sections without one count: the
 * gateway may still run with its earlier settings.
 * @returns the address, without a slash at the end; which certificate the port has to show; and the token
 */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function ownGateway(env: Environment) {
  const { readable, secrets } = examineConfig({ env });
  const { host, port, tls, token } = toAdmin(readable, secrets);
  // A gateway that listens on every address is asked on loopback.
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  const base = `${tls === null ? "http" : "https"}://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
  // Node may not know the certificate's authority, and the certificate may name only the addresses that other machines use.
  const only = { allowPartialTrustChain: true, checkServerIdentity: () => undefined };
  return { base, trust: tls === null ? {} : { ca: tls.cert, ...only }, token };
}

const TIMEOUT_MS = 30_000;
const SAVE_TIMEOUT_MS = 600_000;

export type Client = ReturnType<typeof createClient>;

/** @throws {CommandFailure} if the address or the token file is unusable. The client's methods reject with it, too. */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createClient({ config, adminUrl, tokenFile }: Given) {
  const env = environmentWith({ config });
  const own = ownGateway(env);
  const { base, trust } = adminUrl === undefined ? own : { base: adminUrl.replace(/\/$/, ""), trust: {} };
  if (!/^https?:$/.test(URL.parse(base)?.protocol ?? ""))
    throw new CommandFailure("--admin-url must be an address such as http://127.0.0.1:9090.", EXIT.usage);
  const file = tokenFile ?? (env["ADMIN_TOKEN"] ? undefined : env["ADMIN_TOKEN_FILE"]);
  const token = file ? tokenIn(file) : (env["ADMIN_TOKEN"] ?? own.token?.reveal());
  const headers = token ? { Authorization: `Bearer ${token}` } : {};

  async function send(method: string, path: string, body?: object, timeout = TIMEOUT_MS) {
    const options = { ...trust, method, timeout, headers, body: body && JSON.stringify(body) };
    return await begin(base + path, options).catch(({ message }: Error) => {
      const text = `The gateway cannot be reached at ${new URL(base).origin}: ${message}`;
      throw new CommandFailure(text, EXIT.unreachable);
    });
  }
  return {
    /**
     * @param query parameters that are `undefined` are not sent
     * @returns the answer's JSON. The caller names its type; it is not checked.
     */
    get: async <Answer extends object>(path: string, query: Given = {}): Promise<Answer> => {
      const given = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []));
      return await answerIn(await send("GET", `${path}?${new URLSearchParams(given).toString()}`));
    },
    post: async (path: string, body: object): Promise<object> =>
      await answerIn(await send("POST", path, body)),
    /** Writes the answer to a POST into a new file that only its owner can read. */
    save: async (path: string, file: string): Promise<void> => {
      const response = await send("POST", path, undefined, SAVE_TIMEOUT_MS);
      if (response.statusCode !== 200) return void (await answerIn(response));
      // With `wx`, opening fails if the file exists, so an older backup is never overwritten.
      const target = createWriteStream(file, { flags: "wx", mode: 0o600 });
      let isNew = false;
      target.once("open", () => void (isNew = true));
      await pipeline(response, target).catch((error: Error) => {
        if (isNew) rmSync(file, { force: true });
        // Only errors of the file name a system call.
        if (!("syscall" in error)) throw brokenOff(error);
        throw new CommandFailure(`${file} cannot be written: ${error.message}`);
      });
    },
  };
}

function tokenIn(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new CommandFailure(`The token file cannot be read: ${String(error)}`);
  }
}

/** The timeout, in milliseconds, is that of the whole exchange. */
type Exchange = RequestOptions & { readonly timeout: number; readonly body?: string | undefined };

/** @returns the status of a whole answer. @throws {Error} whose message says why there is none */
export async function statusOf(url: string, options: Exchange): Promise<number> {
  const response = await begin(url, options);
  await finished(response.resume());
  return response.statusCode ?? 0;
}

/**
 * Uses node:http, because fetch refuses some ports, hides why a connection failed, and takes long to load.
 * @returns the response as soon as its head is there
 */
async function begin(url: string, { body, ...options }: Exchange): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { request } = url.startsWith("https:") ? https : http;
  const signal = AbortSignal.timeout(options.timeout);
  request(url, { agent: false, ...options, signal }, resolve)
    .on("error", ({ name, message }) =>
      reject(new Error(name === "AbortError" ? `no answer within ${options.timeout} ms` : message)),
    )
    .end(body);
  return await promise;
}

const brokenOff = ({ message }: Error) =>
  new CommandFailure(`The answer broke off: ${message}`, EXIT.unreachable);

/** @throws {CommandFailure} if the answer breaks off, is a problem, or is not JSON and so not from an admin port */
async function answerIn<Answer>(response: IncomingMessage): Promise<Answer> {
  const status = response.statusCode ?? 0;
  const parts = response.setEncoding("utf8").toArray();
  const whole = await parts.catch((error: Error) => {
    throw brokenOff(error);
  });
  if (!/^application\/(problem\+)?json/.test(response.headers["content-type"] ?? ""))
    throw new CommandFailure(`The answer has status ${status} and is not JSON. Is this the admin port?`);
  const answer: Answer = JSON.parse(whole.join(""));
  if (status >= 200 && status < 300) return answer;
  throw new CommandFailure(problemText({ ...answer, status }));
}
