import { X509Certificate } from "node:crypto";
import type { ConnectionOptions } from "node:tls";

/** When a server's certificate ends, in epoch milliseconds. @param cert PEM; the first certificate is the server's own */
export function endOfCertificate(cert: string): number {
  return new X509Certificate(cert).validToDate.getTime();
}

/**
 * The TLS options of every connection. No setting disables the verification: `rejectUnauthorized` is explicit, so that the
 * variable `NODE_TLS_REJECT_UNAUTHORIZED` has no effect.
 * @param ca certificate authorities that replace Node's own, as PEM
 */
export function verifiedTls(ca: string | null | undefined): ConnectionOptions {
  return { rejectUnauthorized: true, minVersion: "TLSv1.2", ...(ca ? { ca } : {}) };
}

/** The reason for each code. The first pattern that matches the code counts. */
const REASONS: readonly (readonly [code: RegExp, reason: string])[] = [
  [/^CERT_HAS_EXPIRED$/, "its certificate, or its authority's, has expired"],
  [/^CERT_NOT_YET_VALID$/, "its certificate is not valid yet, or this machine's clock is behind"],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, "its certificate is for another host name"],
  [
    /SELF_SIGNED_CERT|^UNABLE_TO_GET_ISSUER_CERT|^UNABLE_TO_VERIFY_LEAF_SIGNATURE$|^CERT_UNTRUSTED$/,
    "no trusted authority has signed its certificate (caFile names your own authorities)",
  ],
  [/^INVALID_PURPOSE$/, "its certificate is not for servers"],
  [/^EPROTO$|^ERR_SSL_/, "the TLS handshake failed: perhaps the port does not use TLS"],
];

/**
 * Explains a failed TLS handshake to operators.
 * @param code an error code of Node or OpenSSL
 * @returns `undefined` if the code is not about TLS
 */
export function tlsReason(code: string): string | undefined {
  return REASONS.find(([pattern]) => pattern.test(code))?.[1];
}
