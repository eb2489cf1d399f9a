import { mediaTypeOf, type Format } from "../interface/media-types.ts";

/** How the company identifies itself (terms of use, interface section 1). */
export interface Identity {
  readonly service: string;
  readonly userAgent: string;
  readonly referrer: string;
}

/**
 * The request headers of every upstream call. `Referrer` is the interface's spelling (section 1), `Referer` is the
 * standard's (RFC 9110, section 10.1.3).
 */
export function outgoingHeaders(format: Format, identity: Identity): Record<string, string> {
  return {
    accept: mediaTypeOf(format, identity.service),
    "user-agent": identity.userAgent,
    referer: identity.referrer,
    referrer: identity.referrer,
  };
}
