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
