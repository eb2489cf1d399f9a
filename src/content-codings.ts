/** The content codings that the gateway can send (RFC 9110, section 8.4.1; zstd: RFC 8878), most preferred first. */
export const CODINGS = ["zstd", "br", "gzip", "identity"] as const;
export type ContentCoding = (typeof CODINGS)[number];
