/**
 * Conditional requests to the upstream (RFC 9110, section 13). The upstream answers 304 if the cached answer is still
 * current.
 */
import type { IncomingHttpHeaders } from "node:http";

import { httpDateMs } from "../http-fields.ts";
import type { Format } from "../interface/media-types.ts";
import type { Validators } from "../types.ts";

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

interface Conditional {
  readonly target: string;
  readonly format: Format;
  readonly cached: Validators | undefined;
}

export interface RefusedConditions {
  /** @returns the same question, without its condition if the upstream refused that last time */
  readonly without: <Question extends Conditional>(question: Question) => Question;
  /** Records the status of an answer, and whether the answer can be used. */
  readonly answered: (question: Conditional, status: number, isUsable: boolean) => void;
}

/** The condition itself failed (412), or made the headers too large (431). */
const REFUSALS: ReadonlySet<number> = new Set([412, 431]);
/** If there are more, the oldest one is forgotten. Its next call has a condition again. */
const MAX_REMEMBERED = 10_000;

/**
 * Remembers the questions whose condition the upstream refused. The upstream would refuse the same condition every time. So
 * the next calls omit it until one of them returns a usable answer, which has new validators or none.
 */
export function createRefusedConditions(): RefusedConditions {
  /** The oldest first. */
  const refused = new Set<string>();

  return {
    without: (question) => (refused.has(nameOf(question)) ? { ...question, cached: undefined } : question),
    answered(question, status, isUsable) {
      const name = nameOf(question);
      if (isUsable) refused.delete(name);
      else if (REFUSALS.has(status) && question.cached !== undefined) {
        refused.add(name);
        if (refused.size > MAX_REMEMBERED) refused.delete(refused.values().next().value ?? "");
      }
    },
  };
}

function nameOf({ target, format }: Conditional): string {
  return `${format} ${target}`;
}
