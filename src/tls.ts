/** TLS as every connection of the gateway has it. No setting switches the verification off. */
interface VerifiedTls {
  readonly rejectUnauthorized: true;
  readonly minVersion: "TLSv1.2";
  readonly ca?: string;
}

/**
 * The verification is asked for by name: left out, Node's own switch against it (the environment's
 * `NODE_TLS_REJECT_UNAUTHORIZED`) would count.
 * @param ca the certificate authorities to trust in place of Node's own, as PEM
 */
export function verifiedTls(ca: string | null | undefined): VerifiedTls {
  return { rejectUnauthorized: true, minVersion: "TLSv1.2", ...(ca ? { ca } : {}) };
}

const UNTRUSTED = "its certificate is of no authority that is trusted here (a custom one is set by caFile)";

const REASONS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "its certificate, or its authority's, has expired",
  CERT_NOT_YET_VALID: "its certificate is not valid yet, or this machine's clock is behind",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host name",
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  CERT_UNTRUSTED: UNTRUSTED,
  INVALID_PURPOSE: "its certificate is not one for servers",
  EPROTO: "no agreement on TLS: perhaps it does not speak TLS there at all",
};

/**
 * What a failed TLS handshake means, in words for operators.
 * @param code of Node or OpenSSL
 * @returns `undefined` where the code is not about TLS
 */
export function tlsReason(code: string): string | undefined {
  return REASONS[code] ?? (code.startsWith("ERR_SSL_") ? REASONS["EPROTO"] : undefined);
}
