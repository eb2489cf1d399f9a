/**
 * Shapes for text: addresses, paths, names and secrets. See `shapes.ts`.
 */
import { isIP } from "node:net";

import * as z from "zod";

import { SEARCH_RESOURCES } from "../interface/resources.ts";
import { Secret } from "./secret.ts";
import { factsOf, type Shape, shaped } from "./setting.ts";

/** A text that matches a pattern. */
function matching(pattern: RegExp, expected: string): Shape<string> {
  return shaped(z.string().regex(pattern), { expected });
}

export function host(): Shape<string> {
  return matching(/^[^\s/]+$/, "a host name or an IP address to listen on");
}

/** The first part of request URLs. A trailing slash is removed. */
export function baseUrl(): Shape<string> {
  const shape = z
    .string()
    .regex(/^https?:\/\/[^\s?#@\\]+$/)
    .refine((text) => URL.canParse(text))
    .transform((text) => text.replace(/\/+$/, ""));
  return shaped(shape, { expected: "an http:// or https:// URL without user name, query and fragment" });
}

/** A URL that is sent in a header. */
export function headerUrl(): Shape<string> {
  const shape = z
    .string()
    .regex(/^https?:\/\/[!-"$-?A-~]+$/)
    .refine((text) => URL.canParse(text));
  return shaped(shape, { expected: "an http:// or https:// URL in ASCII without user name and fragment" });
}

/** The size of an image in pixels. */
export function pixelSize(): Shape<{ readonly width: number; readonly height: number }> {
  const shape = z
    .string()
    .regex(/^[1-9]\d{0,3}x[1-9]\d{0,3}$/)
    .transform((text) => {
      const [width = 0, height = 0] = text.split("x").map(Number);
      return { width, height };
    });
  return shaped(shape, { expected: "width and height in pixels, such as 140x94" });
}

/** A value of an HTTP header. */
export function headerValue(): Shape<string> {
  return matching(/^[!-~]([ -~]*[!-~])?$/, "one line of ASCII text without blanks around it");
}

/** The name of a header. It is converted to lower case, because Node gives the names of headers in lower case. */
export function headerName(): Shape<string> {
  const shape = z
    .string()
    .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/)
    .transform((text) => text.toLowerCase());
  return shaped(shape, { expected: "a header name such as X-App-Id" });
}

/** Text without line breaks and other control characters, and without blanks at its ends. */
const ONE_LINE_PATTERN = /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u;

/** One line of text. */
export function text(
  expected = "one line of text without blanks around it; quote it if it looks like a number",
): Shape<string> {
  return matching(ONE_LINE_PATTERN, expected);
}

/** @returns a shape for a secret; `null` if it is not set */
function secret(shape: Shape<string>): Shape<Secret | null, string | null> {
  const wrapped = shape.transform((value) => new Secret(value));
  return shaped(wrapped.nullable(), { ...factsOf(shape), secret: true });
}

/** A Redis address, with all checks that are possible before connecting. */
export function redisUrl(): Shape<Secret | null, string | null> {
  const expected =
    "a redis:// or rediss:// URL with a host, special characters in user and password percent-encoded";
  const shape = z
    .string()
    .regex(/^rediss?:\/\/[^\s]+$/)
    .refine(isRedisAddress);
  return secret(shaped(shape, { expected }));
}

/** The address of an HTTP proxy, optionally with user and password. */
export function proxyUrl(): Shape<Secret | null, string | null> {
  const expected =
    "an http:// or https:// URL with a host and no path, special characters in user and password percent-encoded";
  const shape = z
    .string()
    .regex(/^https?:\/\/[^\s]+$/)
    .refine((text) => {
      const url = URL.parse(text);
      return url !== null && /^\/?$/.test(url.pathname + url.search + url.hash) && isDecodable(url.password);
    });
  return secret(shaped(shape, { expected }));
}

/** Only a database number may follow the host. A `#` or `/` there belongs to a password that is not encoded. */
function isRedisAddress(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.hostname === "" || url.search + url.hash !== "") return false;
  return /^\/?\d*$/.test(url.pathname) && isDecodable(url.username) && isDecodable(url.password);
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * The path of a file that contains a secret. The path itself is secret until the file was read, because people write the
 * secret here by mistake. A message with the path would then show it.
 */
export function secretFile(): Shape<string | null, string | null> {
  const facts = { expected: "the path of a file", secret: true, shownOnceRead: true };
  return shaped(z.string().min(1).nullable(), facts);
}

/** The path of a file or directory; `null` where it is empty. */
export function optionalPath(what: string): Shape<string | null, string | null> {
  const shape = z
    .string()
    .nullable()
    .transform((path) => path || null);
  return shaped(shape, { expected: `the path of a ${what}` });
}

/** `host:port`, read to its parts. */
export function address(): Shape<{ readonly host: string; readonly port: number }> {
  const shape = z
    .string()
    .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]+):\d{1,5}$/)
    .transform((text) => {
      const colon = text.lastIndexOf(":");
      return { host: text.slice(0, colon).replaceAll(/[[\]]/g, ""), port: Number(text.slice(colon + 1)) };
    })
    .refine(({ port }) => port > 0 && port <= 65_535);
  return shaped(shape, { expected: "a host and a port, such as redis-0.example:6379" });
}

/** The origin of a web page, as browsers send it. */
export function origin(): Shape<string> {
  const shape = z.string().refine((text) => /^https?:/.test(text) && URL.parse(text)?.origin === text);
  return shaped(shape, {
    expected: "an origin in lower case without a path, such as https://www.example.com",
  });
}

/** An IP address, a network in CIDR form, or the name of one. */
export function network(): Shape<string> {
  const shape = z.string().refine((text) => {
    const [address = "", bits, ...rest] = text.split("/");
    const most = isIP(address) === 4 ? 32 : 128;
    const hasBits = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most);
    return NETWORK_NAMES.has(text) || (isIP(address) !== 0 && hasBits && rest.length === 0);
  });
  return shaped(shape, { expected: "an address or a network, such as 10.0.0.0/8 or loopback" });
}

const NETWORK_NAMES: ReadonlySet<string> = new Set(["loopback", "linklocal", "uniquelocal"]);

/** The neutral service name inside `application/vnd.<service>-v2+json`. */
export function mediaTypeToken(): Shape<string> {
  const expected = "a media-type name of 1 to 63 letters, digits, '.', '_' or '-', such as propertyservice";
  return matching(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.-]{0,62}$/, expected);
}

/** The path of one record, with both placeholders once. */
export function recordPath(): Shape<string> {
  const path = /^(\/([A-Za-z0-9._~-]+|\{resource\}|\{serviceId\}))+$/;
  const hasOnce = (text: string, part: string): boolean => text.split(part).length === 2;
  const shape = z
    .string()
    .refine((text) => path.test(text) && hasOnce(text, "{resource}") && hasOnce(text, "{serviceId}"));
  const expected = "a path with {resource} and {serviceId} as segments, such as /{resource}/{serviceId}";
  return shaped(shape, { expected });
}

/** A path below a resource: literal segments, `{name}` for any one segment, and a final `*` for any rest. */
export function passThroughPath(): Shape<string> {
  const pattern = new RegExp(
    `^/(${SEARCH_RESOURCES.join("|")})(/([A-Za-z0-9._~-]+|\\{[A-Za-z][A-Za-z0-9]*\\}))*(/\\*)?$`,
  );
  const shape = z
    .string()
    .regex(pattern)
    .regex(/\/.+\//);
  const expected =
    "a path below /listings, /sold or /areas, such as /listings/{serviceId}/similar or /areas/*";
  return shaped(shape, { expected });
}

/** An app's id. `other` is reserved for requests without an id of their own. */
export function appId(): Shape<string> {
  const expected = "1 to 64 letters, digits, '.', '_' or '-', and not the word other";
  const shape = z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/)
    .refine((text) => text !== "other");
  return shaped(shape, { expected });
}
