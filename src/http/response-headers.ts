/** Makes the response headers of answers: `Cache-Status`, `Age`, `Cache-Control`, validators, `Link` (page-links.ts), `RateLimit`. */
import type { Answer } from "../cache/cache.ts";
import type { Entry } from "../cache/entry.ts";
import { CODINGS, type ContentCoding } from "../content-codings.ts";
import type { Question } from "../query/request.ts";
import type { ShareOfWindow } from "../ratelimit/fairness/shares.ts";
import { pageLinks } from "./page-links.ts";
import { CACHE_NAME } from "./problem-response.ts";
import type { AnyQuestion } from "./admit.ts";

/** Alternating names and values, as `writeHead` takes them. One array is cheaper than one call per header. */
export type Head = string[];

/** How an answer is sent. */
export interface Sending {
  /** Epoch milliseconds. */
  readonly now: number;
  readonly coding: ContentCoding;
  /** The caller already has this answer, so it gets a 304 without a body. */
  readonly isUnchanged: boolean;
}

/** What the head of a hit depends on, besides its entry. An entry belongs to one canonical query. */
type MadeOf = Pick<Sending, "coding" | "isUnchanged"> & Readonly<Record<"age" | "left", number>>;
/** The head of the latest hit of some entries. Most hits within a second have the same head, which takes long to make. */
let latestHeads = new WeakMap<Entry, MadeOf & { readonly head: Head }>();
let remembered = 0;
/** A head has up to a kilobyte, which `cache.maxBytes` does not count. */
const MOST_HEADS = 16_384;

/**
 * `Age` is the true age of the entry, and `max-age` is the rest of its lifetime. A stale answer has `max-age=0`. Its
 * `ttl` is negative if the entry has expired, and 0 if a purge made it stale (RFC 9211, section 2.5).
 * @param body the body in the coding; empty for a 304
 * @returns the headers of an answer, in a new array that may be changed
 */
export function headOfAnswer(question: Question, answer: Answer, sending: Sending, body: Buffer): Head {
  const { entry, outcome, tier, note, endsAt = Infinity } = answer;
  const { now, coding, isUnchanged } = sending;
  const age = Math.max(0, Math.floor((now - entry.bornAt) / 1000));
  const left = Math.floor((Math.min(entry.freshUntil, endsAt) - now) / 1000);
  const of = { coding, isUnchanged, age, left };
  if (outcome !== "hit" || tier !== "memory" || note !== undefined)
    return newHead(question, answer, of, body);
  const latest = latestHeads.get(entry);
  if (latest !== undefined && isMadeOf(latest, of)) return latest.head.slice();
  const head = newHead(question, answer, of, body);
  if (latest === undefined && ++remembered % MOST_HEADS === 0) latestHeads = new WeakMap();
  latestHeads.set(entry, { ...of, head: head.slice() });
  return head;
}

function isMadeOf(one: MadeOf, other: MadeOf): boolean {
  const isOfSameTime = one.age === other.age && one.left === other.left;
  return isOfSameTime && one.coding === other.coding && one.isUnchanged === other.isUnchanged;
}

function newHead(question: Question, answer: Answer, of: MadeOf, body: Buffer): Head {
  const { entry, stored, outcome } = answer;
  const { coding, isUnchanged, age, left } = of;
  // If the gateway may not store the answer, its callers may not either.
  const isKept = stored !== "upstream-no-store";
  const isStale = outcome === "stale" || outcome === "updating";
  const ttlSeconds = isStale || !isKept ? Math.min(0, left) : Math.max(0, left);
  const head = [
    "Cache-Status",
    cacheStatus(answer, ttlSeconds, question),
    "Age",
    String(age),
    "Cache-Control",
    isKept ? `max-age=${Math.max(0, ttlSeconds)}` : "no-store",
    "ETag",
    tagOf(entry.etag, coding),
    "Vary",
    "Accept, Accept-Encoding",
  ];
  const { lastModified } = entry.validators;
  if (lastModified !== undefined) head.push("Last-Modified", lastModified);
  const links = pageLinks(question, entry);
  if (links !== undefined) head.push("Link", links);
  if (isUnchanged) return head;
  head.push("Content-Type", entry.contentType);
  if (coding !== "identity") head.push("Content-Encoding", coding);
  head.push("Content-Length", String(body.length));
  return head;
}

/** @returns the headers of an answer that is not cached. @param headers the upstream's headers about the content */
export function headOfStream(question: AnyQuestion, headers: Readonly<Record<string, string>>): Head {
  const why = question.query.kind === "streamed" ? "bypass" : "request";
  const cacheStatus = `${CACHE_NAME}; fwd=${why}; fwd-status=200; key="${shownKey(question)}"`;
  const own = { "Cache-Status": cacheStatus, "Cache-Control": "no-store", Age: "0" };
  return Object.entries({ ...own, ...headers }).flat();
}

/** @returns the value of `Cache-Status` (RFC 9211, section 2) */
function cacheStatus(answer: Answer, ttlSeconds: number, question: Question): string {
  const { outcome, forwarded, forwardedStatus, stored, tier, entry, note } = answer;
  const parts = [CACHE_NAME];
  if (forwarded === undefined) parts.push("hit");
  else {
    parts.push(`fwd=${forwarded}`, `fwd-status=${forwardedStatus ?? entry.status}`);
    if (outcome === "collapsed") parts.push("collapsed");
    if (stored === true) parts.push("stored");
  }
  parts.push(`ttl=${ttlSeconds}`, `key="${shownKey(question)}"`);
  const detail = note ?? (stored === true ? tier : stored);
  if (detail !== undefined) parts.push(`detail=${detail}`);
  return parts.join("; ");
}

/** The entity tag of a body in a coding. Strong tags must differ between codings (RFC 9110, section 8.8.3.3). */
function tagOf(etag: string, coding: ContentCoding): string {
  return coding === "identity" ? `"${etag}"` : `"${etag}-${coding}"`;
}

/**
 * Whether `If-None-Match` contains the entity tag in any coding, by weak comparison (RFC 9110, section 13.1.2).
 * @param etag without quotes; it has no comma and no space, so it cannot match the text between two tags
 */
export function noneMatchNames(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch.trim() === "*") return true;
  return CODINGS.some((coding) => ifNoneMatch.includes(tagOf(etag, coding)));
}

const LONGEST_SHOWN_KEY = 1024;

/**
 * The key as `Cache-Status` shows it. It needs no escapes, because a canonical query is ASCII without quotes and
 * backslashes (RFC 9651).
 */
function shownKey({ canonicalQuery }: Pick<Question, "canonicalQuery">): string {
  return canonicalQuery.length > LONGEST_SHOWN_KEY
    ? `${canonicalQuery.slice(0, LONGEST_SHOWN_KEY)}...`
    : canonicalQuery;
}

/** Each array of shares is rendered once, which keeps cache hits cheap. */
const rendered = new WeakMap<readonly ShareOfWindow[], readonly string[]>();

/**
 * Headers that show an app what is left of its share (draft-ietf-httpapi-ratelimit-headers):
 * `RateLimit-Policy: "1m";q=60;w=60` and `RateLimit: "1m";r=50;t=30`.
 * @param shares the app's share of each window
 * @returns alternating names and values; none if there is no share
 */
export function rateLimitHeaders(shares: readonly ShareOfWindow[]): readonly string[] {
  if (shares.length === 0) return [];
  const known = rendered.get(shares);
  if (known !== undefined) return known;
  const list = (item: (share: ShareOfWindow) => string): string =>
    shares.map((share) => `"${share.name}";${item(share)}`).join(", ");
  // Rounded down, because an app cannot send a part of a request.
  const policy = list(({ limit, windowSeconds }) => `q=${Math.floor(limit)};w=${windowSeconds}`);
  const limit = list(({ remaining, resetSeconds }) => `r=${Math.floor(remaining)};t=${resetSeconds}`);
  const headers = ["RateLimit-Policy", policy, "RateLimit", limit];
  rendered.set(shares, headers);
  return headers;
}
