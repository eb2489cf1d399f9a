/**
 * Reads what a request accepts (interface, section 9).
 */
import Negotiator from "negotiator";

import { mediaTypeOf } from "../interface/media-types.ts";

/**
 * The media type of the answer: the unversioned one or version 2, as requested. Wildcards get the unversioned one.
 * @returns `undefined` if the header is missing or asks for something else (406)
 */
export function acceptedType(accept: string | undefined, service: string): string | undefined {
  const types = [mediaTypeOf("json", service), mediaTypeOf("v2", service)];
  const best = new Negotiator({ headers: { accept: accept ?? "none/none" } }).mediaType(types);
  return best === undefined ? undefined : types.find((type) => type === best);
}

/** Whether an `Accept-Encoding` header accepts gzip. */
export function acceptsGzip(header: string | undefined): boolean {
  const headers = { "accept-encoding": header ?? "identity" };
  return new Negotiator({ headers }).encodings(["gzip"], { preferred: [] }).includes("gzip");
}
