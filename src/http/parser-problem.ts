/**
 * What Node's parser refuses, in our words.
 */
import { Problem } from "../errors.ts";
import type { HeadLimits } from "./head.ts";

/** Times in milliseconds. */
export interface ParserLimits extends HeadLimits {
  /** From a connection, or the end of the answer before, until a request's headers are here. */
  readonly headersTimeoutMs: number;
  /** Until the whole request is here. */
  readonly requestTimeoutMs: number;
}

const FIRST_LINE =
  "The first line does not end with HTTP/1.1 or HTTP/1.0. A space in the URL must be percent-encoded.";
const CONTENT_LENGTH = "The Content-Length is not one plain number.";

/** Texts for the parser's error codes. Node's own messages are not stable. */
const DETAILS: Readonly<Record<string, string>> = {
  HPE_INVALID_METHOD: "The request does not begin with an HTTP method.",
  HPE_INVALID_URL:
    "The URL has a character that is not allowed. Non-ASCII characters must be percent-encoded.",
  HPE_INVALID_CONSTANT: FIRST_LINE,
  HPE_INVALID_VERSION: FIRST_LINE,
  HPE_STRICT: FIRST_LINE,
  HPE_PAUSED_H2_UPGRADE: FIRST_LINE,
  HPE_INVALID_HEADER_TOKEN: "A header has a character that is not allowed, or no name.",
  HPE_INVALID_CONTENT_LENGTH: CONTENT_LENGTH,
  HPE_UNEXPECTED_CONTENT_LENGTH: CONTENT_LENGTH,
  HPE_INVALID_TRANSFER_ENCODING: "This Transfer-Encoding is not supported, or there is a Content-Length too.",
};

/** @param error what Node tells with `clientError` */
export function parserProblem(error: Error, limits: ParserLimits): Problem {
  const code: unknown = Reflect.get(error, "code");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return tooSlow(limits);
  if (code === "HPE_HEADER_OVERFLOW") return tooLarge(error, limits);
  const detail = DETAILS[String(code)] ?? "The bytes are not a complete HTTP/1.1 request.";
  return new Problem("malformed-request", { detail });
}

function tooSlow({ headersTimeoutMs, requestTimeoutMs }: ParserLimits): Problem {
  const [headers, whole] = [headersTimeoutMs / 1000, requestTimeoutMs / 1000];
  return new Problem("request-timeout", {
    detail: `The headers must arrive within ${headers} s, the whole request within ${whole} s.`,
  });
}

function tooLarge(error: Error, { maxUrlBytes, maxHeaderBytes }: ParserLimits): Problem {
  return isStillInUrl(error)
    ? new Problem("uri-too-long", { detail: `URLs may be ${maxUrlBytes} bytes long.` })
    : new Problem("headers-too-large", {
        detail: `All headers together may be ${maxHeaderBytes} bytes long.`,
      });
}

/** Whether the parser gave up before the first line had ended, as far as the last packet tells. */
function isStillInUrl(error: Error): boolean {
  const packet: unknown = Reflect.get(error, "rawPacket");
  const parsed: unknown = Reflect.get(error, "bytesParsed");
  return (
    Buffer.isBuffer(packet) && typeof parsed === "number" && !packet.subarray(0, parsed).includes("\r\n")
  );
}
