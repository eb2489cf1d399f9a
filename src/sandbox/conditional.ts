/**
 * Validators, and requests that are conditional on them (RFC 9110, sections 8.8 and 13).
 */
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

import type { Answer } from "./answer.ts";
import type { Validators } from "./types.ts";

const ENTITY_TAG = /(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g;

/** Headers that a 304 does not repeat, because they describe a body (RFC 9110, section 15.4.5). */
const ABOUT_THE_BODY = new Set(["content-type", "content-encoding"]);

/** A strong tag, computed from the bytes as sent. So a compressed body and a plain one have different tags. */
function entityTag({ headers, body }: Answer): string {
  const hash = createHash("sha256")
    .update(`${headers["Content-Type"] ?? ""}\n`)
    .update(body);
  return `"${hash.digest("base64url").slice(0, 27)}"`;
}

/**
 * The validators of a proper answer.
 * @param changedAt when its data last changed, epoch milliseconds
 * @param nowMs the instant in the `Date` header; `Last-Modified` is never later (RFC 9110, section 8.8.2.1)
 */
export function validatorsOf(
  answer: Answer,
  changedAt: number,
  which: Validators,
  nowMs: number,
): Record<string, string> {
  const lastModified = new Date(Math.min(changedAt, nowMs)).toUTCString();
  return {
    ...((which === "etag" || which === "both") && { ETag: entityTag(answer) }),
    ...((which === "last-modified" || which === "both") && { "Last-Modified": lastModified }),
  };
}

/** Epoch milliseconds; NaN for all but the preferred format, so that a condition in another format is ignored. */
function readHttpDate(text: string | undefined): number {
  const instant = new Date(text ?? "");
  return instant.getTime() >= 0 && instant.toUTCString() === text ? instant.getTime() : Number.NaN;
}

/** The opaque parts of a list of entity tags, for the weak comparison (RFC 9110, section 13.1.2). */
function opaqueTags(list: string): (string | undefined)[] {
  return [...list.matchAll(ENTITY_TAG)].map(([, opaque]) => opaque);
}

/**
 * Whether a request's conditions show that the caller has this answer already. `If-Modified-Since` counts only without
 * `If-None-Match`, and only if the answer has `Last-Modified` (RFC 9110, section 13.1.3).
 */
export function isNotModified(asked: IncomingHttpHeaders, answer: Answer): boolean {
  const own = new Headers(answer.headers);
  const noneMatch = asked["if-none-match"];
  if (noneMatch !== undefined) {
    if (noneMatch.trim() === "*") return true;
    const [tag] = opaqueTags(own.get("ETag") ?? "");
    return tag !== undefined && opaqueTags(noneMatch).includes(tag);
  }
  return readHttpDate(own.get("Last-Modified") ?? undefined) <= readHttpDate(asked["if-modified-since"]);
}

/** The 304 for a 200: the same headers, except those about the body. */
export function notModified({ headers }: Answer): Answer {
  const kept = Object.entries(headers).filter(([name]) => !ABOUT_THE_BODY.has(name.toLowerCase()));
  return { status: 304, headers: Object.fromEntries(kept), body: Buffer.alloc(0) };
}
