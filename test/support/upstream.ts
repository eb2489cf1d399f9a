/** An upstream for tests that records requests as they were received, signature included. */
import { createHash } from "node:crypto";
import http from "node:http";

import { expect, onTestFinished } from "vitest";

import { CALLER } from "./gateway.ts";

/** A request as it was received. */
export interface Seen {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** Names in lower case, in order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

export interface OwnUpstream {
  /** The settings that make a gateway use it. */
  readonly env: { readonly UPSTREAM_URL: string; readonly UPSTREAM_IMAGE_URL: string };
  readonly seen: readonly Seen[];
  /** The number of connections so far. */
  readonly connections: () => number;
}

/** A valid answer without records. */
export const NO_AREAS = '{"totalCount":0,"count":0,"areas":[],"limit":30,"searchParams":{}}';

/** @param answer answers a request; `number` counts them from 1 */
export async function startUpstream(
  answer: (response: http.ServerResponse, number: number) => void = (response) => void response.end(NO_AREAS),
): Promise<OwnUpstream> {
  const seen: Seen[] = [];
  let connections = 0;
  const server = http.createServer((request, response) => {
    seen.push({
      method: request.method ?? "",
      target: request.url ?? "",
      headers: request.rawHeaders.flatMap((name, index, all) =>
        index % 2 === 0 ? [[name.toLowerCase(), all[index + 1] ?? ""] as const] : [],
      ),
    });
    answer(response, seen.length);
  });
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const url = `http://127.0.0.1:${port}`;
  return { env: { UPSTREAM_URL: url, UPSTREAM_IMAGE_URL: url }, seen, connections: () => connections };
}

/** A signature as it was sent. */
export interface Signature {
  /** The target before the signature. */
  readonly question: string;
  /** Seconds. */
  readonly time: number;
  readonly unique: string;
}

/** @returns the signature in a target, after checking it against the interface's rule (section 5) */
export function signatureOf({ target }: Seen): Signature {
  const [, question = "", time = "", unique = "", hash = ""] =
    /^(.*)[?&]callerId=test-caller&time=(\d+)&unique=([^&]+)&hash=([^&]+)$/.exec(target) ?? [];
  expect(target).not.toMatch(/(callerId|time|unique|hash)=.*[?&]\1=/i);
  expect([target, unique.length]).toEqual([target, 16]);
  const expected = createHash("sha1")
    .update(`${CALLER.callerId}${time}${CALLER.privateKey}${unique}`)
    .digest("hex");
  expect([target, hash]).toEqual([target, expected]);
  return { question, time: Number(time), unique };
}
