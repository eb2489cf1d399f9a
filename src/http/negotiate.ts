/**
 * Content negotiation: formats (RFC 9110, section 12.5.1), content codings (section 12.5.3) and entity tags (section
 * 13.1.2).
 */
import Negotiator from "negotiator";

import { mediaTypeOf, type Format, type ContentCoding } from "../interface/media-types.ts";

/** Most preferred first. The interface recommends the format without a version (section 9). */
const JSON_FORMATS: readonly Format[] = ["json", "v2"];
const IMAGE_FORMATS: readonly Format[] = ["jpeg"];

/**
 * Chooses the format of the answer.
 * @param accept the `Accept` header, if there is one
 * @param images whether the request is for a thumbnail
 * @param service the upstream's neutral media-type name
 * @returns `undefined` if the caller accepts none of the formats
 */
export function negotiateFormat(
  accept: string | undefined,
  images: boolean,
  service: string,
): Format | undefined {
  const formats = images ? IMAGE_FORMATS : JSON_FORMATS;
  if (accept === undefined || accept.trim() === "") return formats[0];
  const types = new Map(formats.map((format) => [mediaTypeOf(format, service).toLowerCase(), format]));
  const best = new Negotiator({ headers: { accept: withoutParameters(accept.toLowerCase()) } }).mediaType([
    ...types.keys(),
  ]);
  return best === undefined ? undefined : types.get(best);
}

/** Drops all parameters except the weight, so that `application/json; charset=utf-8` matches too. */
function withoutParameters(accept: string): string {
  return accept.replaceAll(/;(?!\s*q\s*=)[^;,]*/g, "");
}

/** Most preferred first. */
const CODINGS: readonly ContentCoding[] = ["zstd", "br", "gzip", "identity"];

/**
 * Chooses the content coding of the body.
 * @param acceptEncoding the `Accept-Encoding` header, if there is one
 * @returns `identity` if the caller accepts no other coding
 */
export function negotiateCoding(acceptEncoding: string | undefined): ContentCoding {
  if (acceptEncoding === undefined) return "identity";
  const headers = { "accept-encoding": acceptEncoding.toLowerCase() };
  const [best] = new Negotiator({ headers }).encodings(CODINGS, { preferred: CODINGS });
  return CODINGS.find((coding) => coding === best) ?? "identity";
}

/**
 * Whether `If-None-Match` contains one of the entity tags, by weak comparison (RFC 9110, section 13.1.2).
 * @param opaqueTags without quotes; they contain no comma and no space, so they cannot match the text between two tags
 */
export function noneMatchNames(ifNoneMatch: string | undefined, opaqueTags: readonly string[]): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === "*") return true;
  return opaqueTags.some((tag) => ifNoneMatch.includes(`"${tag}"`));
}
