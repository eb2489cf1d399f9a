/**
 * The shapes of settings. Each says what it expects, because messages about a wrong setting use this sentence instead of the
 * validator's own text.
 */
import { isIP } from "node:net";
import { unescape } from "node:querystring";

import * as z from "zod";

import { SEARCH_RESOURCES } from "../../interface/resources.ts";
import { Secret } from "../secrets/secret.ts";
import { type Declaration, type SecretKind, setting, type Shape, shaped } from "./setting.ts";
import { BUDGET_PATTERN, DURATION_PATTERN, SIZE_PATTERN } from "./units.ts";
import { formatDuration, parseBudget, parseQuantity } from "./units.ts";

const matching = (pattern: RegExp): z.ZodString => z.string().regex(pattern);

// --- Numbers, durations, sizes, choices ---

export const DAY_MS = 86_400_000;

/** A duration, read to milliseconds; bounds inclusive. Node's timers cannot be much longer than 24 days. */
export function duration({ minMs = 1, maxMs = 24 * DAY_MS } = {}): Shape<number> {
  return shaped(
    matching(DURATION_PATTERN).transform(parseQuantity).pipe(z.number().min(minMs).max(maxMs)),
    `a duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}, such as 250ms, 5m or 1h`,
  );
}

/** The kinds of answers that have their own lifetimes. */
type AnswerKind = "listings" | "sold" | "areas" | "records" | "images";

/** One lifetime for each kind of answer, reloadable. One duration in its place sets all of them. */
export function perKind(
  minMs: number,
  declaration: Declaration<Record<AnswerKind, string>>,
): Shape<Record<AnswerKind, number>, Record<AnswerKind, string>> {
  const each = duration({ minMs, maxMs: 365 * DAY_MS });
  const section = z.strictObject({ listings: each, sold: each, areas: each, records: each, images: each });
  const expected =
    "one duration for all kinds of answers, such as 5m, or a section with one for each (in a variable listings=5m,sold=1h)";
  return setting(shaped(section, expected), { ...declaration, reloadable: true });
}

/** A size above zero, read to bytes. */
export const size: Shape<number> = shaped(
  matching(SIZE_PATTERN).transform(parseQuantity).pipe(z.int().min(1)),
  "a size above zero with its unit, such as 512KiB or 256MiB",
);

/** A whole number; bounds inclusive. */
export function integer(min: number, max: number): Shape<number, number> {
  return shaped(z.int().min(min).max(max), `a whole number from ${min} to ${max}`);
}

/** A part of a whole; bounds inclusive. */
export function fraction(min: number, max: number): Shape<number, number> {
  return shaped(z.number().min(min).max(max), `a number from ${min} to ${max}, such as 0.1`);
}

export const flag = shaped(z.boolean(), "true or false");

export const port = shaped(
  z.int().min(0).max(65_535),
  "a port number from 0 to 65535, where 0 means any free port",
);

export function oneOf<const Words extends readonly string[]>(
  ...words: Words
): Shape<Words[number], Words[number]> {
  return shaped(z.enum(words), `one of ${words.join(", ")}`);
}

/** A list, which is empty by default. @param items completes the sentence "expected a list of …" */
export function listOf<Item extends z.ZodType>(item: Item, items: string): z.ZodArray<Item> {
  return shaped(z.array(item), `a list of ${items}`, { default: [] });
}

/** The ledger keeps each call for as long. */
const LONGEST_WINDOW_MS = 35 * DAY_MS;

/** Requests per window. */
export const windows = shaped(
  matching(BUDGET_PATTERN)
    .transform(parseBudget)
    .refine((all) => all.every(({ windowMs }) => windowMs <= LONGEST_WINDOW_MS))
    .refine((all) => new Set(all.map(({ windowMs }) => windowMs)).size === all.length),
  'requests per window such as "60/1m,10000/1d": whole numbers above zero, each window once and at most 35d',
);

// --- Names and lines of text ---

/** One line of text, without control characters, and without blanks at its ends. */
export const LINE = {
  pattern: /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u,
  expected: "one line of text without blanks around it",
};

export const text = shaped(matching(LINE.pattern), `${LINE.expected}; quote it if it looks like a number`);

/** A value of an HTTP header. */
export const headerValue = shaped(
  matching(/^[!-~]([ -~]*[!-~])?$/),
  "one line of ASCII text without blanks around it",
);

/** The name of a header. It is converted to lower case, because Node gives the names of headers in lower case. */
export const headerName = shaped(
  matching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/).transform((name) => name.toLowerCase()),
  "a header name such as X-App-Id",
);

/** The neutral service name inside `application/vnd.<service>-v2+json`. */
export const mediaTypeToken = shaped(
  matching(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.-]{0,62}$/),
  "a media-type name of 1 to 63 letters, digits, '.', '_' or '-', such as propertyservice",
);

/** An app's id. `other` is reserved for requests without an id of their own. */
export const appId = shaped(
  matching(/^[A-Za-z0-9._-]{1,64}$/).refine((id) => id !== "other"),
  "1 to 64 letters, digits, '.', '_' or '-', and not the word other",
);

/** The size of an image in pixels. */
export const pixelSize = shaped(
  matching(/^[1-9]\d{0,3}x[1-9]\d{0,3}$/).transform((written) => {
    const [width = 0, height = 0] = written.split("x").map(Number);
    return { width, height };
  }),
  "width and height in pixels, such as 140x94",
);

// --- Paths ---

/** The path of a file or directory; `null` where it is empty. */
export const optionalPath = shaped(
  z
    .string()
    .nullable()
    .transform((path) => path || null),
  "the path of a file",
);

/**
 * The path of a file that contains a secret. The path itself is secret until the file was read, because people write the
 * secret here by mistake. A message with the path would then show it.
 * @param secretEnv the variable with the secret itself. The variable of the path has the same name with `_FILE` at its end
 */
export function secretFile(holds: SecretKind, secretEnv: string): Shape<string | null, string | null> {
  const declaration = { env: `${secretEnv}_FILE`, secretEnv, secret: true, holds };
  return shaped(z.string().min(1).nullable(), "the path of a file", declaration);
}

/** The path of one record, with both placeholders once. */
export const recordPath = shaped(
  matching(/^(\/([A-Za-z0-9._~-]+|\{resource\}|\{serviceId\}))+$/).refine((path) =>
    ["{resource}", "{serviceId}"].every((part) => path.split(part).length === 2),
  ),
  "a path with {resource} and {serviceId} as segments, such as /{resource}/{serviceId}",
);

const SEGMENTS = `(/([A-Za-z0-9._~-]+|\\{[A-Za-z][A-Za-z0-9]*\\}))*(/\\*)?`;

/** A path below a resource: literal segments, `{name}` for any one segment, and a final `*` for any rest. */
export const passThroughPath = shaped(
  z
    .string()
    .regex(new RegExp(`^/(${SEARCH_RESOURCES.join("|")})${SEGMENTS}$`))
    .refine((path) => /\/.+\//.test(path)),
  "a path below /listings, /sold or /areas, such as /listings/{serviceId}/similar or /areas/*",
);

// --- Addresses ---

export const host = shaped(matching(/^[^\s/]+$/), "a host name or an IP address to listen on");

/** The first part of request URLs. A trailing slash is removed. */
export const baseUrl = shaped(
  matching(/^https?:\/\/[^\s?#@\\]+$/)
    .refine((url) => URL.canParse(url))
    .transform((url) => url.replace(/\/+$/, "")),
  "an http:// or https:// URL without user name, query and fragment",
);

/** A URL that is sent in a header. */
export const headerUrl = shaped(
  matching(/^https?:\/\/[!-"$-?A-~]+$/).refine((url) => URL.canParse(url)),
  "an http:// or https:// URL in ASCII without user name and fragment",
);

/** The origin of a web page, as browsers send it. */
export const origin = shaped(
  matching(/^https?:/).refine((written) => URL.parse(written)?.origin === written),
  "an origin in lower case without a path, such as https://www.example.com",
);

/** User and password, percent-encoded where they have special characters. */
const USER = String.raw`(?:(?:[^\s/?#%]|%[0-9A-Fa-f]{2})*@)?`;

/** A URL with user and password. @param rest what may follow its host */
function secretUrl(scheme: string, rest: string, expected: string): Shape<Secret | null, string | null> {
  const url = matching(new RegExp(`^${scheme}://${USER}[^\\s/?#@]+${rest}$`)).refine(
    // `unescape` puts this character in the place of bytes that are not UTF-8.
    (written) => URL.canParse(written) && !unescape(written).includes("\uFFFD"),
  );
  return shaped(url.transform((written) => new Secret(written)).nullable(), expected, { secret: true });
}

/** Only a database number may follow the host. A `#` or `/` there belongs to a password that is not encoded. */
export const redisUrl = secretUrl(
  "rediss?",
  String.raw`(?:/\d*)?`,
  "a redis:// or rediss:// URL with a host, special characters in user and password percent-encoded",
);

/** The address of an HTTP proxy, optionally with user and password. */
export const proxyUrl = secretUrl(
  "https?",
  "/?",
  "an http:// or https:// URL with a host and no path, special characters in user and password percent-encoded",
);

/** `host:port`, read to its parts. */
export const address = shaped(
  matching(/^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]+):\d{1,5}$/)
    .transform((written) => {
      const at = written.lastIndexOf(":");
      return { host: written.slice(0, at).replaceAll(/[[\]]/g, ""), port: Number(written.slice(at + 1)) };
    })
    .refine((read) => read.port > 0 && read.port <= 65_535),
  "a host and a port, such as redis-0.example:6379",
);

const NETWORK_NAMES: ReadonlySet<string> = new Set(["loopback", "linklocal", "uniquelocal"]);

/** An IP address, a network in CIDR form, or the name of one. proxy-addr throws at a network of all addresses. */
export const network = shaped(
  matching(/^[0-9A-Za-z.:]+(\/\d{1,3})?$/).refine((written) => {
    const [ip = "", bits = "1"] = written.split("/");
    const most = isIP(ip) === 4 ? 32 : 128;
    return NETWORK_NAMES.has(written) || (isIP(ip) !== 0 && Number(bits) >= 1 && Number(bits) <= most);
  }),
  "an address or a network (not /0), such as 10.0.0.0/8 or loopback",
);
