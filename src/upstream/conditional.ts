/**
 * Conditional requests to the upstream (RFC 9110, section 13). The upstream answers 304 if the cached answer is still
 * current.
 */
import type { IncomingHttpHeaders } from "node:http";

import { httpDateMs } from "../http-fields.ts";
import type { Validators } from "./fetched.ts";

const ENTITY_TAG = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/;

/**
 * Reads the validators of an answer (RFC 9110, sections 8.8.2 and 8.8.3). Malformed ones are dropped, because a condition
 * with them could mean something else: `If-None-Match: *` matches every answer.
 * @param now epoch milliseconds
 */
export function validatorsIn(
  { etag, "last-modified": lastModified }: IncomingHttpHeaders,
  now: number,
): Validators {
  return {
    etag: etag !== undefined && ENTITY_TAG.test(etag) ? etag : undefined,
    lastModified: httpDateMs(lastModified, now) === undefined ? undefined : lastModified,
  };
}

/** @returns the request headers that ask for the body only if it has changed since these validators */
export function conditionHeaders(cached: Validators | undefined): Record<string, string> {
  return {
    ...(cached?.etag !== undefined && { "if-none-match": cached.etag }),
    ...(cached?.lastModified !== undefined && { "if-modified-since": cached.lastModified }),
  };
}
