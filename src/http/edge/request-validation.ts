/**
 * Refuses requests that break HTTP or a size limit, on both ports.
 *
 * Node's parser refuses most of them, and `parserProblem` explains why. `checkHead` refuses the requests that the parser
 * accepts, for example those with two Host headers.
 */
import type { IncomingMessage } from "node:http";

import type { Constants } from "../../config/timeouts-and-limits.ts";
import { Problem } from "../../errors.ts";
import { memoize } from "../../process/memoize.ts";

export type HeadLimits = Pick<Constants["server"], "maxUrlBytes" | "maxHeaderBytes" | "maxHeaders">;

/** A host with an optional port (RFC 9110, section 7.2): a name or IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)(?::\d{0,5})?$/;
const isHost = memoize((host) => HOST.test(host));
/** A target in absolute form (RFC 9112, section 3.2.2). The group is its host and port. */
const ABSOLUTE = /^https?:\/\/([^/?#]*)/i;
type Head = Pick<IncomingMessage, "url" | "headers" | "httpVersion" | "rawHeaders">;
/** A colon, a space and the line end. */
const AROUND_HEADER_BYTES = 4;

/**
 * Checks the request line and the headers.
 *
 * The gateway does not use the host, but it must be one well-formed host (RFC 9112, section 3.2), because a proxy in front
 * may route by it. The content must have one length or plain chunks.
 * @param target as the caller wrote it
 * @throws {Problem} if the request is refused
 */
export function checkHead(message: Head, limits: HeadLimits, target = message.url ?? "/"): void {
  const { headers, httpVersion, rawHeaders } = message;
  if (target.length > limits.maxUrlBytes)
    throw new Problem("uri-too-long", { detail: `URLs may be at most ${limits.maxUrlBytes} bytes long.` });
  // Node's parser also accepts HTTP/0.9 and version 2.0.
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw malformed("The version is not HTTP/1.1 or HTTP/1.0.");
  checkHost(message, checkSizeAndCountHosts(rawHeaders, limits), target);
  const framing = headers["transfer-encoding"];
  if (framing !== undefined && (framing.toLowerCase() !== "chunked" || httpVersion === "1.0"))
    throw malformed("This Transfer-Encoding is not supported.");
  if (headers.expect !== undefined)
    throw new Problem("expectation-failed", { detail: "There is an Expect header." });
}

/** @returns how many Host headers there are; Node keeps only the first one */
function checkSizeAndCountHosts(
  rawHeaders: readonly string[],
  { maxHeaders, maxHeaderBytes }: HeadLimits,
): number {
  let detail: string | undefined;
  let bytes = 0;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    bytes += name.length + (rawHeaders[at + 1] ?? "").length + AROUND_HEADER_BYTES;
    if (name.length === "host".length && name.toLowerCase() === "host") hosts++;
  }
  if (rawHeaders.length > maxHeaders * 2) detail = `A request may have at most ${maxHeaders} headers.`;
  else if (bytes > maxHeaderBytes)
    detail = `All headers together may be at most ${maxHeaderBytes} bytes long.`;
  if (detail !== undefined) throw new Problem("headers-too-large", { detail });
  return hosts;
}

function checkHost({ headers: { host }, httpVersion }: Head, hosts: number, target: string): void {
  if (host === undefined) {
    if (httpVersion === "1.1") throw malformed("The Host header is missing.");
  } else if (!isHost(host)) throw malformed("The Host header is not a host, with or without a port.");
  else if (hosts > 1) throw malformed("There are two Host headers.");
  const addressed = target.startsWith("/") ? undefined : ABSOLUTE.exec(target)?.[1];
  if (addressed !== undefined && !isHost(addressed)) throw malformed("The host in the URL is not valid.");
}

function malformed(detail: string): Problem {
  return new Problem("malformed-request", { detail });
}

/**
 * Explains a request that Node's parser refused.
 * @param error the error of the event `clientError`
 */
export function parserProblem(error: Error, limits: Constants["server"]): Problem {
  const seconds = (ms: number): string => `${ms / 1000} s`;
  switch (Reflect.get(error, "code")) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new Problem("request-timeout", {
        detail:
          `The headers must arrive within ${seconds(limits.headersTimeoutMs)}, ` +
          `the whole request within ${seconds(limits.requestTimeoutMs)}.`,
      });
    case "HPE_HEADER_OVERFLOW":
      return new Problem("headers-too-large", {
        detail: `All headers together may be at most ${limits.maxHeaderBytes} bytes long, URLs ${limits.maxUrlBytes}.`,
      });
    default:
      return malformed(
        "The bytes are not a complete request of HTTP/1.1. A space or another special character in a URL must be percent-encoded.",
      );
  }
}
