/**
 * Reads a caller's request headers: the format and content coding that it accepts (RFC 9110, sections 12.5.1 and 12.5.3), its
 * deadline, and its cache directives.
 *
 * `headers` are as Node gives them: names in lower case, repeated lines of one name joined by commas.
 */
import Negotiator from "negotiator";

import { Problem } from "../errors.ts";
import { elementsOf, secondsIn } from "../http-fields.ts";
import { CODINGS, type ContentCoding } from "../content-codings.ts";
import { type Format, mediaTypeOf } from "../interface/media-types.ts";
import { type CallerDirectives, NO_DIRECTIVES } from "../query/request.ts";

/** Most preferred first. The interface recommends the format without a version (section 9). */
const JSON_FORMATS: readonly Format[] = ["json", "v2"];
const IMAGE_FORMATS: readonly Format[] = ["jpeg"];

/**
 * Chooses the format of the answer.
 * @param accept the `Accept` header; empty if there is none
 * @param images whether the request is for a thumbnail
 * @param service the upstream's neutral media-type name
 * @returns `undefined` if the caller accepts none of the formats
 */
export function negotiateFormat(accept: string, images: boolean, service: string): Format | undefined {
  const formats = images ? IMAGE_FORMATS : JSON_FORMATS;
  const types = new Map(formats.map((format) => [mediaTypeOf(format, service).toLowerCase(), format]));
  const accepted = withoutParameters(accept.toLowerCase()).trim() || "*/*";
  const best = new Negotiator({ headers: { accept: accepted } }).mediaType([...types.keys()]);
  return types.get(best ?? "");
}

/** Drops all parameters except the weight, so that `application/json; charset=utf-8` matches too. */
function withoutParameters(accept: string): string {
  return accept.replaceAll(/;(?!\s*q\s*=)[^;,]*/g, "");
}

/**
 * Chooses the content coding of the body.
 * @param acceptEncoding the `Accept-Encoding` header; empty if there is none
 * @returns `identity` if the caller accepts no other coding
 */
export function negotiateCoding(acceptEncoding: string): ContentCoding {
  const headers = { "accept-encoding": acceptEncoding.toLowerCase() };
  const [best] = new Negotiator({ headers }).encodings(CODINGS, { preferred: CODINGS });
  return CODINGS.find((coding) => coding === best) ?? "identity";
}

/** The header with the caller's deadline, in milliseconds after the arrival of the request. */
const DEADLINE_HEADER = "x-request-deadline-ms";

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * The shortest of the setting, `X-Request-Deadline-Ms` and the preference `wait` (RFC 7240, section 4.3). A caller can
 * shorten the setting but not extend it.
 * @param maxWaitMs the setting, in milliseconds
 * @returns milliseconds from the arrival of the request, and the value of `Preference-Applied` (RFC 7240, section 3) if the
 *   preference set the deadline
 * @throws {Problem} `malformed-request` if the deadline header is not one positive whole number. A preference that is
 *   malformed or too long is ignored (RFC 7240, section 2).
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function deadlineOf(headers: Headers, maxWaitMs: number) {
  const allowedMs = Math.min(maxWaitMs, deadlineIn(headers[DEADLINE_HEADER]) ?? maxWaitMs);
  const preferredSeconds = preferredWait(headers["prefer"]);
  if (preferredSeconds === undefined || preferredSeconds * 1000 > allowedMs)
    return { waitMs: allowedMs, preferenceApplied: undefined };
  return { waitMs: preferredSeconds * 1000, preferenceApplied: `wait=${preferredSeconds}` };
}

const POSITIVE = /^0*[1-9]\d*$/;
const LONGEST_ECHO = 40;

function deadlineIn(value: Headers[string]): number | undefined {
  if (value === undefined) return undefined;
  const text = String(value);
  if (POSITIVE.test(text)) return Number(text);
  const shown = JSON.stringify(text.length > LONGEST_ECHO ? `${text.slice(0, LONGEST_ECHO)}…` : text);
  throw new Problem("malformed-request", {
    detail: `X-Request-Deadline-Ms is ${shown}; expected it once, a whole number of milliseconds above zero.`,
  });
}

/** @returns the preferred seconds. `wait=0` is ignored, because every answer takes some time. */
function preferredWait(value: Headers[string]): number | undefined {
  const wait = value === undefined ? undefined : elementsOf(String(value)).get("wait");
  return wait !== undefined && POSITIVE.test(wait) ? Number(wait) : undefined;
}

/**
 * The directives of `Cache-Control` (RFC 9111, section 5.2.1; `stale-if-error`: RFC 5861, section 4). Without that
 * header, `Pragma: no-cache` counts (RFC 9111, section 5.4). Malformed and unknown directives are ignored.
 */
export function directivesOf(headers: {
  readonly "cache-control"?: string | undefined;
  readonly pragma?: string | undefined;
}): CallerDirectives {
  const cacheControl = headers["cache-control"];
  if (cacheControl === undefined)
    return headers.pragma !== undefined && elementsOf(headers.pragma).has("no-cache")
      ? { noCache: true }
      : NO_DIRECTIVES;
  const directives = elementsOf(cacheControl);
  const maxStale = directives.get("max-stale");
  return {
    noStore: directives.has("no-store"),
    noCache: directives.has("no-cache"),
    onlyIfCached: directives.has("only-if-cached"),
    maxAgeMs: secondsIn(directives.get("max-age")),
    minFreshMs: secondsIn(directives.get("min-fresh")),
    // `max-stale` without a number accepts any staleness.
    maxStaleMs: maxStale === "" ? Number.POSITIVE_INFINITY : secondsIn(maxStale),
    staleIfErrorMs: secondsIn(directives.get("stale-if-error")),
  };
}
