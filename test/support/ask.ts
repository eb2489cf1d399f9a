import http from "node:http";
import net from "node:net";

import { expect, onTestFinished } from "vitest";

/** A whole response. Header names are lower case. `json` parses the body. */
export type Reply = Readonly<ReturnType<typeof replyOf>>;

export function replyOf(status: number, headers: http.IncomingHttpHeaders, body: Buffer) {
  const text = body.toString("utf8");
  return { status, headers, body, text, json: (): unknown => JSON.parse(text) };
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: http.OutgoingHttpHeaders;
  readonly agent?: http.Agent;
  readonly signal?: AbortSignal;
  readonly body?: string;
}

/** One request that sends no header but Host and those given, the target as it is. */
export function ask(
  url: string,
  { method = "GET", headers = {}, agent, signal, body }: AskOptions = {},
): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const [, host = "", port = "80", target = "/"] = /^http:\/\/([^:/]+):(\d+)(.*)$/s.exec(url) ?? [];
  const request = http.request(
    { host, port, path: target || "/", method, headers, ...(agent && { agent }), ...(signal && { signal }) },
    (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve(replyOf(response.statusCode ?? 0, response.headers, Buffer.concat(chunks))),
      );
    },
  );
  request.on("error", reject);
  request.end(body);
  return promise;
}

/** POSTs a text, JSON or not. */
export const post = (url: string, body: string): Promise<Reply> => ask(url, { method: "POST", body });

/**
 * Sends bytes as they are and returns all that comes back until the other side closes.
 * @param end whether to say that nothing more follows
 */
export function exchangeRaw(port: number, bytes: string | Buffer, { end = false } = {}): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = net.connect(port, "127.0.0.1");
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  socket.on("error", reject);
  socket.on("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
  if (end) socket.end(bytes);
  else socket.write(bytes);
  return promise;
}

/** Sends bytes on a connection of their own, and reads nothing of the answer. The connection ends with the test. */
export function askUnread(port: number, bytes: string): net.Socket {
  const socket = net.connect(port, "127.0.0.1").on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  socket.pause().write(bytes);
  return socket;
}

/** Headers of the connection, not of the answer. */
export const OF_THE_CONNECTION = ["connection", "keep-alive", "transfer-encoding", "date"];
/** Headers that an answer may have. */
export const OF_THE_ANSWER = (
  "x-request-id cache-status age cache-control etag vary content-type content-length last-modified link allow " +
  "retry-after ratelimit-policy ratelimit"
).split(" ");

/** What a parameter of `Cache-Status` may hold (RFC 9211, section 2), as written (RFC 9651, section 3.3). */
const PARAMETERS: Readonly<Record<string, RegExp>> = {
  hit: /^$/,
  fwd: /^=(bypass|method|uri-miss|vary-miss|miss|request|stale|partial)$/,
  "fwd-status": /^=[1-5]\d\d$/,
  ttl: /^=-?\d{1,15}$/,
  stored: /^$/,
  collapsed: /^$/,
  key: /^="[\x20\x21\x23-\x5b\x5d-\x7e]*"$/,
  detail: /^=[A-Za-z*][\w!#$%&'*+.^`|~:/-]*$/,
};

/**
 * `Cache-Status` of this gateway as its parameters, after checking that it is one that RFC 9211 allows; a
 * parameter without a value is `true`.
 */
export function cacheStatus(reply: Reply): Record<string, string | true> {
  const header = String(reply.headers["cache-status"]);
  const [name, ...written] = header.split("; ");
  expect([header, name]).toEqual([header, "property-gateway"]);
  const parameters = Object.fromEntries(
    written.map((parameter) => {
      const [, key = "", value = ""] = /^([a-z-]+)(.*)$/.exec(parameter) ?? [];
      expect([header, key, value]).toEqual([header, key, expect.stringMatching(PARAMETERS[key] ?? /(?!)/)]);
      return [key, value === "" ? (true as const) : value.slice(1).replaceAll('"', "")];
    }),
  );
  expect([header, Object.keys(parameters).length]).toEqual([header, written.length]);
  // A hit was not forwarded. What was not forwarded has no fwd-status, is not stored and not collapsed.
  if (parameters["hit"]) expect([header, parameters["fwd"]]).toEqual([header, undefined]);
  if (parameters["fwd"] === undefined) {
    for (const key of ["fwd-status", "stored", "collapsed"])
      expect([header, parameters[key]]).toEqual([header, undefined]);
  }
  return parameters;
}

/** The code of a problem, after checking that it is one a caller can use (RFC 9457). */
export function problemCode(reply: Reply): string {
  expect(reply.headers["content-type"]).toBe("application/problem+json");
  const problem = reply.json();
  expect(problem).toMatchObject({
    type: expect.stringMatching(
      /^(urn:property-gateway:problem:|https:\/\/iana\.org\/assignments\/http-problem-types#)[a-z-]+$/,
    ),
    title: expect.stringMatching(/^[A-Z].{10,}/),
    status: reply.status,
    remedy: expect.stringMatching(/^[A-Z].{10,}/),
  });
  expect(reply.headers["x-request-id"]).toMatch(/^[\w.:/+=@-]+$/);
  return /"type":"[^"]*?([a-z-]+)"/.exec(reply.text)?.[1] ?? "";
}
