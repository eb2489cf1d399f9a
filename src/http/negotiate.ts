/**
 * What the caller accepts: formats (RFC 9110, section 12.5.1) and content codings (section 12.5.3).
 */
import Negotiator from "negotiator";

import type { ContentCoding } from "../types.ts";
import { mediaTypeOf, type Format } from "../interface/media-types.ts";

/** In the order the gateway prefers them: the unversioned format, as the interface recommends (section 9). */
const JSON_FORMATS: readonly Format[] = ["json", "v2"];
const IMAGE_FORMATS: readonly Format[] = ["jpeg"];

/**
 * @param accept the `Accept` header, `undefined` where absent
 * @param images whether a thumbnail is asked for
 * @param service the service's neutral media-type name
 * @returns the format to ask for, or `undefined` where none is acceptable
 */
export function negotiateFormat(
  accept: string | undefined,
  images: boolean,
  service: string,
): Format | undefined {
  const formats = images ? IMAGE_FORMATS : JSON_FORMATS;
  if (accept === undefined || accept.trim() === "") return formats[0];
  const types = new Map(formats.map((format) => [mediaTypeOf(format, service), format]));
  const best = new Negotiator({ headers: { accept: withoutParameters(accept.toLowerCase()) } }).mediaType([
    ...types.keys(),
  ]);
  return best === undefined ? undefined : types.get(best);
}

/** Drops parameters but the weight: `application/json; charset=utf-8` means the one JSON there is. */
function withoutParameters(accept: string): string {
  return accept.replaceAll(/;(?!\s*q\s*=)[^;,]*/g, "");
}

/** Quick to make first: each is made once and kept. */
const CODINGS: readonly ContentCoding[] = ["zstd", "br", "gzip", "identity"];

/**
 * @param acceptEncoding the `Accept-Encoding` header, `undefined` where absent
 * @returns the coding to send; identity where nothing else is acceptable
 */
export function negotiateCoding(acceptEncoding: string | undefined): ContentCoding {
  if (acceptEncoding === undefined) return "identity";
  const headers = { "accept-encoding": acceptEncoding.toLowerCase() };
  const [best] = new Negotiator({ headers }).encodings(CODINGS, { preferred: CODINGS });
  return CODINGS.find((coding) => coding === best) ?? "identity";
}

/** Whether `If-None-Match` names the entity tag, by weak comparison (RFC 9110, section 13.1.2). */
export function noneMatchNames(ifNoneMatch: string | undefined, opaqueTags: readonly string[]): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === "*") return true;
  return [...ifNoneMatch.matchAll(/(?:W\/)?"([^"]*)"/g)].some(([, tag = ""]) => opaqueTags.includes(tag));
}
