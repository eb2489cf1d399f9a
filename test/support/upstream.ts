/** An upstream for tests that records requests as they were received, signature included. */
import { hash } from "node:crypto";
import http from "node:http";

import { expect } from "vitest";

import { listBody } from "../../src/sandbox/envelope.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { search } from "../../src/sandbox/search.ts";
import { CALLER } from "./gateway.ts";
import { serve } from "./serve.ts";

/** A request as it was received. */
export interface Seen {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** Names in lower case, in order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

export type OwnUpstream = Awaited<ReturnType<typeof startUpstream>>;

/** A valid answer without records. */
export const NO_AREAS = '{"totalCount":0,"count":0,"areas":[],"limit":30,"searchParams":{}}';

/** @param answer answers a request; `number` counts them from 1 */
export async function startUpstream(
  answer: (response: http.ServerResponse, number: number) => void = (response) => void response.end(NO_AREAS),
) {
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
  const url = `http://127.0.0.1:${await serve(server)}`;
  return {
    /** The settings that make a gateway use it. */
    env: { UPSTREAM_URL: url, UPSTREAM_IMAGE_URL: url },
    seen: seen as readonly Seen[],
    /** The number of connections so far. */
    connections: () => connections,
  };
}

/** The page of a search that the sandbox sends. */
export function pageOf(sandbox: Sandbox, target: string, offset: "offset" | "offSet" = "offset"): string {
  const { pathname, searchParams } = new URL(target, "http://sandbox");
  const resource = pathname === "/sold" ? "sold" : "listings";
  return listBody(resource, search(sandbox.data, resource, searchParams), offset);
}

/**
 * @returns the signature in a target, after checking it against the interface's rule (section 5): the target before it, the
 * time in seconds, and the unique text
 */
export function signatureOf({ target }: Seen) {
  const [, question = "", time = "", unique = "", sent = ""] =
    /^(.*)[?&]callerId=test-caller&time=(\d+)&unique=([^&]+)&hash=([^&]+)$/.exec(target) ?? [];
  expect(target).not.toMatch(/(callerId|time|unique|hash)=.*[?&]\1=/i);
  expect([target, unique.length]).toEqual([target, 16]);
  const expected = hash("sha1", `${CALLER.callerId}${time}${CALLER.privateKey}${unique}`);
  expect([target, sent]).toEqual([target, expected]);
  return { question, time: Number(time), unique };
}
