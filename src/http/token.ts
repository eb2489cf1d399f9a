/** The token in the header `Authorization` of a request, and whether it is the right one. */
import { hash, timingSafeEqual } from "node:crypto";

/** @returns the token in `Bearer TOKEN` (RFC 6750, section 2.1). The name of the scheme ignores case (RFC 9110, section 11.1). */
export function bearerToken(authorization = ""): string | undefined {
  return /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization)?.[1];
}

/** @param digest of the right token */
export function isToken(given: string | undefined, digest: Buffer): boolean {
  // All digests have the same length, so the duration of the comparison reveals nothing about the token.
  return given !== undefined && timingSafeEqual(digestOf(given), digest);
}

export function digestOf(token: string): Buffer {
  return hash("sha256", token, "buffer");
}
