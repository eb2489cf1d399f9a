/**
 * The values that settings can have. Each shape says in words what it expects, because people with a wrong setting
 * read these words and not the validator's own.
 */
import * as z from "zod";

import { SEARCH_RESOURCES } from "../interface/resources.ts";
import { Secret } from "./secret.ts";
import { metaOf, setting, shaped, type Unit } from "./setting.ts";
import {
  BUDGET_PATTERN,
  type BudgetWindow,
  DURATION_PATTERN,
  formatDuration,
  parseBudget,
  parseDuration,
  parseSize,
  SIZE_PATTERN,
} from "./units.ts";

/** A shape that reads `Input` and yields `Output`. */
type Shape<Output, Input = string> = z.ZodType<Output, Input>;

/** A shape whose values have a unit. */
type Measured<S extends z.ZodType, U extends Unit> = z.core.$ZodBranded<S, U>;

export const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;

/** Timers beyond this many milliseconds fire at once: a 32-bit count. */
const LONGEST_TIMER_MS = 24 * DAY_MS;

interface DurationBounds {
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** A duration, read to milliseconds; bounds inclusive. */
export function duration(bounds: DurationBounds = {}): Measured<Shape<number>, "Ms"> {
  const shape = plainDuration(bounds);
  return shaped(shape.brand<"Ms">(), { expected: "", ...metaOf(shape), unit: "Ms" });
}

/** A duration that is only compared with the clock. It may be longer than timers can be. */
export function lifetime(): Measured<Shape<number>, "Ms"> {
  return duration({ maxMs: YEAR_MS });
}

function plainDuration({ minMs = 1, maxMs = LONGEST_TIMER_MS }: DurationBounds): Shape<number> {
  return shaped(
    z
      .string()
      .regex(DURATION_PATTERN)
      .transform((text) => parseDuration(text) ?? Number.NaN)
      .pipe(z.number().min(minMs).max(maxMs)),
    {
      expected: `a duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}, such as 250ms, 5m or 1h`,
    },
  );
}

/** The kinds of answers that have their own lifetimes, and what descriptions call them. */
const KINDS = {
  listings: "a search for listings",
  sold: "a search for sold properties",
  areas: "a search for areas",
  records: "a single record",
  images: "a thumbnail",
} as const;

type Kind = keyof typeof KINDS;

interface PerKindDeclaration {
  readonly minMs?: number;
  readonly default: Readonly<Record<Kind, string>>;
  readonly env?: string;
  /** @param answer an answer of one kind, or "an answer" of any kind */
  readonly description: (answer: string) => string;
}

/** A section with one lifetime for each kind of answer, all reloadable. One duration may stand for all of them. */
export function perKind({
  minMs = 1,
  default: defaults,
  env,
  description,
}: PerKindDeclaration): PerKindShape {
  const shared = { reloadable: true, ...(env !== undefined && { env }) };
  const each = (kind: Kind): Shape<number> =>
    setting(plainDuration({ minMs, maxMs: YEAR_MS }), {
      default: defaults[kind],
      description: description(KINDS[kind]),
      ...shared,
    });
  const section = z.strictObject({
    listings: each("listings"),
    sold: each("sold"),
    areas: each("areas"),
    records: each("records"),
    images: each("images"),
  });
  shaped(section, {
    expected: "one duration for all kinds of answers, such as 5m, or a section with one for each",
    unit: "Ms",
  });
  return setting(section.brand<"Ms">(), { description: description("an answer"), ...shared });
}

type PerKindShape = Measured<Shape<Record<Kind, number>, Record<Kind, string>>, "Ms">;

/** A size above zero, read to bytes; `maxBytes` inclusive. */
export function size({ maxBytes }: { maxBytes?: number } = {}): Measured<Shape<number>, "Bytes"> {
  const most = maxBytes === undefined ? "" : `, at most ${maxBytes / 1024}KiB`;
  const shape = z
    .string()
    .regex(SIZE_PATTERN)
    .transform((text) => parseSize(text) ?? Number.NaN)
    .pipe(
      z
        .number()
        .min(1)
        .max(maxBytes ?? Number.MAX_SAFE_INTEGER),
    );
  const expected = `a size above zero with its unit, such as 512KiB or 256MiB${most}`;
  return shaped(shape.brand<"Bytes">(), { expected, unit: "Bytes" });
}

/** A whole number of bytes; bounds inclusive. */
export function byteCount(min: number, max: number): Measured<Shape<number, number>, "Bytes"> {
  const expected = `a whole number from ${min} to ${max}`;
  return shaped(z.int().min(min).max(max).brand<"Bytes">(), { expected, unit: "Bytes" });
}

/** A whole number; bounds inclusive. */
export function integer(min: number, max: number): Shape<number, number> {
  return shaped(z.int().min(min).max(max), { expected: `a whole number from ${min} to ${max}` });
}

/** A part of a whole; bounds inclusive. */
export function fraction(min: number, max: number): Shape<number, number> {
  return shaped(z.number().min(min).max(max), { expected: `a number from ${min} to ${max}, such as 0.1` });
}

export function flag(): Shape<boolean, boolean> {
  return shaped(z.boolean(), { expected: "true or false" });
}

export function port(): Shape<number, number> {
  return shaped(z.int().min(0).max(65_535), {
    expected: "a port number from 0 to 65535, where 0 means any free port",
  });
}

export function host(): Shape<string> {
  return shaped(z.string().regex(/^[^\s/]+$/), { expected: "a host name or an IP address to listen on" });
}

export function oneOf<const Words extends readonly string[]>(
  ...words: Words
): Shape<Words[number], Words[number]> {
  return shaped(z.enum(words), { expected: `one of ${words.join(", ")}` });
}

/** Requests per window. */
export function budget(): Shape<readonly BudgetWindow[]> {
  return shaped(
    z
      .string()
      .regex(BUDGET_PATTERN)
      .transform((text, context) => {
        const windows = parseBudget(text);
        if (windows) return windows;
        context.addIssue("not a budget");
        return z.NEVER;
      }),
    { expected: 'requests per window such as "60/1m,10000/1d": whole numbers above zero, each window once' },
  );
}

/** An address to build request URLs on: read without a trailing slash. */
export function baseUrl(): Shape<string> {
  return shaped(
    z
      .string()
      .regex(/^https?:\/\/[^\s?#@\\]+$/)
      .refine((text) => URL.canParse(text))
      .transform((text) => text.replace(/\/+$/, "")),
    { expected: "an http:// or https:// URL without user name, query and fragment" },
  );
}

/** A URL that is sent in a header. */
export function headerUrl(): Shape<string> {
  return shaped(
    z
      .string()
      .regex(/^https?:\/\/[!-"$-?A-~]+$/)
      .refine((text) => URL.canParse(text)),
    { expected: "an http:// or https:// URL in ASCII without user name and fragment" },
  );
}

/** A value of an HTTP header. */
export function headerValue(): Shape<string> {
  return shaped(z.string().regex(/^[!-~]([ -~]*[!-~])?$/), {
    expected: "one line of ASCII text without blanks around it",
  });
}

/** A header's name: read in lower case, as Node spells the names of incoming headers. */
export function headerName(): Shape<string> {
  return shaped(
    z
      .string()
      .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/)
      .transform((text) => text.toLowerCase()),
    { expected: "a header name such as X-App-Id" },
  );
}

/** Text with nothing in it that could break a line, and no blanks at its ends to be missed. */
export const ONE_LINE_PATTERN = /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u;

/** One line of text. */
export function text(
  expected = "one line of text without blanks around it; quote it if it looks like a number",
): Shape<string> {
  return shaped(z.string().regex(ONE_LINE_PATTERN), { expected });
}

/** @returns the shape, which may also be empty: then it is `null` */
export function optional<Output, Input>(shape: Shape<Output, Input>): Shape<Output | null, Input | null> {
  return shaped(shape.nullable(), { expected: "", ...metaOf(shape) });
}

const toSecret = (value: string): Secret => new Secret(value);

/** A secret, or nothing. */
export function secretText(): Shape<Secret | null, string | null> {
  const shape = text();
  return shaped(shape.transform(toSecret).nullable(), { expected: "", ...metaOf(shape), secret: true });
}

/** What can stand in a header behind `Bearer` (RFC 6750, section 2.1). */
export const TOKEN_PATTERN = /^[A-Za-z0-9._~+/-]+=*$/;

/** A bearer token, or nothing. */
export function token(): Shape<Secret | null, string | null> {
  return shaped(z.string().regex(TOKEN_PATTERN).transform(toSecret).nullable(), {
    expected:
      "letters, digits and any of -._~+/, with = at the end at most; quote it if it looks like a number",
    secret: true,
  });
}

/**
 * The path of a file that holds a secret. Until the file was read it counts as one too: people put the secret
 * itself here by mistake, and then a message with "the path" would print it.
 */
export function secretFile(): Shape<string | null, string | null> {
  return shaped(z.string().min(1).nullable(), {
    expected: "the path of a file",
    secret: true,
    shownOnceRead: true,
  });
}

/** A Redis address: as far as a mistake in it can be told before connecting. */
export function redisUrl(): Shape<Secret | null, string | null> {
  return shaped(
    z
      .string()
      .regex(/^rediss?:\/\/[^\s]+$/)
      .refine(isRedisAddress)
      .transform(toSecret)
      .nullable(),
    {
      expected:
        "a redis:// or rediss:// URL with a host, special characters in user and password percent-encoded",
      secret: true,
    },
  );
}

/** What is behind the host can only be a database's number; a `#` or `/` there is a password not encoded. */
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

/** `host:port`, read to its parts. */
export function address(): Shape<{ readonly host: string; readonly port: number }> {
  return shaped(
    z
      .string()
      .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]+):\d{1,5}$/)
      .transform((text) => {
        const colon = text.lastIndexOf(":");
        return { host: text.slice(0, colon).replaceAll(/[[\]]/g, ""), port: Number(text.slice(colon + 1)) };
      })
      .refine(({ port }) => port > 0 && port <= 65_535),
    { expected: "a host and a port, such as redis-0.example:6379" },
  );
}

/** The path of a file or directory. */
export function optionalPath(what: string): Shape<string | null, string | null> {
  return shaped(
    z
      .string()
      .nullable()
      .transform((path) => path || null),
    { expected: `the path of a ${what}` },
  );
}

/** The neutral service name inside `application/vnd.<service>-v2+json`. */
export function mediaTypeToken(): Shape<string> {
  return shaped(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.-]{0,62}$/), {
    expected: "a media-type name of 1 to 63 letters, digits, '.', '_' or '-', such as propertyservice",
  });
}

/** Where one record is found. */
export function recordPath(): Shape<string> {
  const path = /^(\/([A-Za-z0-9._~-]+|\{resource\}|\{serviceId\}))+$/;
  return shaped(
    z.string().refine((text) => {
      const once = (part: string): boolean => text.split(part).length === 2;
      return path.test(text) && once("{resource}") && once("{serviceId}");
    }),
    { expected: "a path with {resource} and {serviceId} as segments, such as /{resource}/{serviceId}" },
  );
}

/** A path below a resource: literal segments, `{name}` for any one, a final `*` for any rest. */
export function passThroughPath(): Shape<string> {
  const pattern = new RegExp(
    `^/(${SEARCH_RESOURCES.join("|")})(/([A-Za-z0-9._~-]+|\\{[A-Za-z][A-Za-z0-9]*\\}))*(/\\*)?$`,
  );
  return shaped(
    z
      .string()
      .regex(pattern)
      .regex(/\/.+\//),
    {
      expected: "a path below /listings, /sold or /areas, such as /listings/{serviceId}/similar or /areas/*",
    },
  );
}

/** An app's id. `other` is taken: it stands for every app that is not registered. */
export function appId(): Shape<string> {
  return shaped(
    z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,64}$/)
      .refine((text) => text !== "other"),
    {
      expected: "1 to 64 letters, digits, '.', '_' or '-', and not the word other",
    },
  );
}
