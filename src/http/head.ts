/**
 * What is wrong with a request's first line and headers, whoever it is for: all that Node's parser lets pass and
 * HTTP does not, or not within the limits.
 */
import type { IncomingMessage } from "node:http";

import { Problem } from "../errors.ts";

export interface HeadLimits {
  readonly maxUrlBytes: number;
  /** Of all headers together: names, values and what stands between them. */
  readonly maxHeaderBytes: number;
  readonly maxHeaders: number;
}

/** A host with or without its port (RFC 9110, section 7.2): a name or IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)(?::\d{0,5})?$/;
/** The beginning of a target in absolute form (RFC 9112, section 3.2.2) and, in the group, whom it addresses. */
const ABSOLUTE = /^https?:\/\/([^/?#]*)/i;
/** `: ` and the end of the line. */
const AROUND_HEADER_BYTES = 4;

/**
 * Throws the `Problem` that a request is refused with for its head, if any.
 *
 * Whom it addresses decides nothing here, but must be one host and well-formed (RFC 9112, section 3.2): whatever
 * stands in front of the gateway may have decided by it. Content is framed by one length or by plain chunks.
 */
export function checkHead(message: IncomingMessage, limits: HeadLimits): void {
  const { url = "/", headers, httpVersion, rawHeaders } = message;
  if (url.length > limits.maxUrlBytes) {
    throw new Problem("uri-too-long", { detail: `URLs may be ${limits.maxUrlBytes} bytes long.` });
  }
  // The parser takes a line without a version for one of HTTP/0.9, and the number 2.0 for a version like others.
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw malformed("The version is not HTTP/1.1 or HTTP/1.0.");
  checkSize(rawHeaders, limits);
  checkHost(message);
  const framing = headers["transfer-encoding"];
  if (framing !== undefined && (framing.toLowerCase() !== "chunked" || httpVersion === "1.0")) {
    throw malformed("This Transfer-Encoding is not supported.");
  }
  if (headers.expect !== undefined)
    throw new Problem("expectation-failed", { detail: "There is an Expect header." });
}

function checkSize(rawHeaders: readonly string[], { maxHeaders, maxHeaderBytes }: HeadLimits): void {
  if (rawHeaders.length > maxHeaders * 2) {
    throw new Problem("headers-too-large", { detail: `A request may have ${maxHeaders} headers.` });
  }
  let bytes = 0;
  for (const text of rawHeaders) bytes += text.length;
  if (bytes + (rawHeaders.length / 2) * AROUND_HEADER_BYTES > maxHeaderBytes) {
    throw new Problem("headers-too-large", {
      detail: `All headers together may be ${maxHeaderBytes} bytes long.`,
    });
  }
}

function checkHost({ url = "/", headers: { host }, httpVersion, rawHeaders }: IncomingMessage): void {
  if (host === undefined) {
    if (httpVersion === "1.1") throw malformed("The Host header is missing.");
  } else if (!HOST.test(host)) throw malformed("The Host header is not a host, with or without a port.");
  else if (isTwice(rawHeaders, "host")) throw malformed("There are two Host headers.");
  const addressed = ABSOLUTE.exec(url)?.[1];
  if (addressed !== undefined && !HOST.test(addressed)) throw malformed("The host in the URL is not valid.");
}

/** Of some headers that are given twice Node keeps the first and drops the rest without a word. */
function isTwice(rawHeaders: readonly string[], name: string): boolean {
  let seen = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] ?? "";
    if (given.length === name.length && given.toLowerCase() === name) seen++;
  }
  return seen > 1;
}

function malformed(detail: string): Problem {
  return new Problem("malformed-request", { detail });
}
