/**
 * Shapes for text: addresses, paths, names and secrets. See `number-shapes.ts`.
 */
import { isIP } from "node:net";

import * as z from "zod";

import { SEARCH_RESOURCES } from "../../interface/resources.ts";
import { Secret } from "../secrets/secret.ts";
import { factsOf, type Shape, shaped } from "./setting.ts";

/** A text that matches a pattern and, if there is one, a further rule. */
function matching(
  pattern: RegExp,
  expected: string,
  isRight: (text: string) => boolean = () => true,
): Shape<string> {
  return shaped(z.string().regex(pattern).refine(isRight), { expected });
}

/** A text that matches, converted. */
function converted<T>(shape: Shape<string>, convert: (text: string) => T): Shape<T> {
  return shaped(shape.transform(convert), factsOf(shape));
}

export function host(): Shape<string> {
  return matching(/^[^\s/]+$/, "a host name or an IP address to listen on");
}

/** The first part of request URLs. A trailing slash is removed. */
export function baseUrl(): Shape<string> {
  const expected = "an http:// or https:// URL without user name, query and fragment";
  const url = matching(/^https?:\/\/[^\s?#@\\]+$/, expected, (text) => URL.canParse(text));
  return converted(url, (text) => text.replace(/\/+$/, ""));
}

/** A URL that is sent in a header. */
export function headerUrl(): Shape<string> {
  const expected = "an http:// or https:// URL in ASCII without user name and fragment";
  return matching(/^https?:\/\/[!-"$-?A-~]+$/, expected, (text) => URL.canParse(text));
}

/** The size of an image in pixels. */
export function pixelSize(): Shape<{ readonly width: number; readonly height: number }> {
  const size = matching(/^[1-9]\d{0,3}x[1-9]\d{0,3}$/, "width and height in pixels, such as 140x94");
  return converted(size, (text) => {
    const [width = 0, height = 0] = text.split("x").map(Number);
    return { width, height };
  });
}

/** A value of an HTTP header. */
export function headerValue(): Shape<string> {
  return matching(/^[!-~]([ -~]*[!-~])?$/, "one line of ASCII text without blanks around it");
}

/** The name of a header. It is converted to lower case, because Node gives the names of headers in lower case. */
export function headerName(): Shape<string> {
  const name = matching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "a header name such as X-App-Id");
  return converted(name, (text) => text.toLowerCase());
}

/** One line of text, without control characters, and without blanks at its ends. */
export function text(
  expected = "one line of text without blanks around it; quote it if it looks like a number",
): Shape<string> {
  return matching(/^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u, expected);
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
  // Only a database number may follow the host. A `#` or `/` there belongs to a password that is not encoded.
  return secret(matching(/^rediss?:\/\/[^\s]+$/, expected, (text) => isAddress(text, /^\/?\d*$/)));
}

/** The address of an HTTP proxy, optionally with user and password. */
export function proxyUrl(): Shape<Secret | null, string | null> {
  const expected =
    "an http:// or https:// URL with a host and no path, special characters in user and password percent-encoded";
  return secret(matching(/^https?:\/\/[^\s]+$/, expected, (text) => isAddress(text, /^\/?$/)));
}

/** @param path what may follow the host */
function isAddress(text: string, path: RegExp): boolean {
  const url = URL.parse(text);
  if (url === null || url.hostname === "") return false;
  return (
    path.test(url.pathname + url.search + url.hash) && isDecodable(url.username) && isDecodable(url.password)
  );
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
  const portOf = (text: string): number => Number(text.slice(text.lastIndexOf(":") + 1));
  const shape = matching(
    /^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]+):\d{1,5}$/,
    "a host and a port, such as redis-0.example:6379",
    (text) => portOf(text) > 0 && portOf(text) <= 65_535,
  );
  return converted(shape, (text) => ({
    host: text.slice(0, text.lastIndexOf(":")).replaceAll(/[[\]]/g, ""),
    port: portOf(text),
  }));
}

/** The origin of a web page, as browsers send it. */
export function origin(): Shape<string> {
  const expected = "an origin in lower case without a path, such as https://www.example.com";
  return matching(/^https?:/, expected, (text) => URL.parse(text)?.origin === text);
}

const NETWORK_NAMES: ReadonlySet<string> = new Set(["loopback", "linklocal", "uniquelocal"]);

/** An IP address, a network in CIDR form, or the name of one. */
export function network(): Shape<string> {
  const expected = "an address or a network, such as 10.0.0.0/8 or loopback";
  return matching(/^[0-9A-Za-z.:]+(\/\d{1,3})?$/, expected, (text) => {
    const [address = "", bits = "0"] = text.split("/");
    const most = isIP(address) === 4 ? 32 : 128;
    return NETWORK_NAMES.has(text) || (isIP(address) !== 0 && Number(bits) <= most);
  });
}

/** The neutral service name inside `application/vnd.<service>-v2+json`. */
export function mediaTypeToken(): Shape<string> {
  const expected = "a media-type name of 1 to 63 letters, digits, '.', '_' or '-', such as propertyservice";
  return matching(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.-]{0,62}$/, expected);
}

/** The path of one record, with both placeholders once. */
export function recordPath(): Shape<string> {
  const expected = "a path with {resource} and {serviceId} as segments, such as /{resource}/{serviceId}";
  return matching(/^(\/([A-Za-z0-9._~-]+|\{resource\}|\{serviceId\}))+$/, expected, (text) =>
    ["{resource}", "{serviceId}"].every((part) => text.split(part).length === 2),
  );
}

/** A path below a resource: literal segments, `{name}` for any one segment, and a final `*` for any rest. */
export function passThroughPath(): Shape<string> {
  const segments = `(/([A-Za-z0-9._~-]+|\\{[A-Za-z][A-Za-z0-9]*\\}))*(/\\*)?`;
  return matching(
    new RegExp(`^/(${SEARCH_RESOURCES.join("|")})${segments}$`),
    "a path below /listings, /sold or /areas, such as /listings/{serviceId}/similar or /areas/*",
    (text) => /\/.+\//.test(text),
  );
}

/** An app's id. `other` is reserved for requests without an id of their own. */
export function appId(): Shape<string> {
  const expected = "1 to 64 letters, digits, '.', '_' or '-', and not the word other";
  return matching(/^[A-Za-z0-9._-]{1,64}$/, expected, (text) => text !== "other");
}
