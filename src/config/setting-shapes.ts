import * as z from "zod";

import { SEARCH_RESOURCES } from "../interface/resources.ts";
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

/**
 * The shapes a setting can have. Each says in words what it expects, because that, and not the
 * validator's own text, is what a person with a wrong setting gets to read.
 */

/** What is known of a setting besides its shape. */
export interface SettingMeta {
  /** Completes the sentence "expected …". */
  readonly expected: string;
  /** There is no default: the start is refused without it. */
  readonly required?: boolean;
  /** The value is never shown in a message. */
  readonly secret?: boolean;
  /** But it is where the settings are valid: then it is the path of a file that was read. */
  readonly shownOnceRead?: boolean;
  /** What it means, where `config/default.yaml` has no line to say so (parts of list items). */
  readonly meaning?: string;
}

/** A shape that reads `Input` and yields `Output`. */
type Shape<Output, Input = string> = z.ZodType<Output, Input>;

const metas = z.registry<SettingMeta>();

/** Attaches what is known of a setting to its shape. Keep it the outermost call: wrappers lose it. */
export function setting<S extends z.ZodType>(shape: S, meta: SettingMeta): S {
  metas.add(shape, meta);
  return shape;
}

/** @returns what {@link setting} attached; sections have none. */
export function metaOf(shape: z.core.$ZodType): SettingMeta | undefined {
  return metas.get(shape);
}

/** Timers beyond this many milliseconds fire at once: a 32-bit count. */
const LONGEST_TIMER_MS = 24 * 86_400_000;

/** A duration, read to milliseconds; bounds inclusive. */
export function duration({ minMs = 1, maxMs = LONGEST_TIMER_MS } = {}): Shape<number> {
  return setting(
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

/** A size above zero, read to bytes; `maxBytes` inclusive. */
export function size({ maxBytes }: { maxBytes?: number } = {}): Shape<number> {
  const most = maxBytes === undefined ? "" : `, at most ${maxBytes / 1024}KiB`;
  return setting(
    z
      .string()
      .regex(SIZE_PATTERN)
      .transform((text) => parseSize(text) ?? Number.NaN)
      .pipe(
        z
          .number()
          .min(1)
          .max(maxBytes ?? Number.MAX_SAFE_INTEGER),
      ),
    { expected: `a size above zero with its unit, such as 512KiB or 256MiB${most}` },
  );
}

/** A whole number; bounds inclusive. */
export function integer(min: number, max: number): Shape<number, number> {
  return setting(z.int().min(min).max(max), { expected: `a whole number from ${min} to ${max}` });
}

/** A part of a whole; bounds inclusive. */
export function fraction(min: number, max: number): Shape<number, number> {
  return setting(z.number().min(min).max(max), { expected: `a number from ${min} to ${max}, such as 0.1` });
}

export function flag(): Shape<boolean, boolean> {
  return setting(z.boolean(), { expected: "true or false" });
}

export function port(): Shape<number, number> {
  return setting(z.int().min(0).max(65_535), {
    expected: "a port number from 0 to 65535, where 0 means any free port",
  });
}

export function host(): Shape<string> {
  return setting(z.string().regex(/^[^\s/]+$/), { expected: "a host name or an IP address to listen on" });
}

export function oneOf<const Words extends readonly string[]>(
  ...words: Words
): Shape<Words[number], Words[number]> {
  return setting(z.enum(words), { expected: `one of ${words.join(", ")}` });
}

/** Requests per window. */
export function budget(): Shape<readonly BudgetWindow[]> {
  return setting(
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
  return setting(
    z
      .string()
      .regex(/^https?:\/\/[^\s?#@\\]+$/)
      .refine((text) => URL.canParse(text))
      .transform((text) => text.replace(/\/+$/, "")),
    { expected: "an http:// or https:// URL without user name, query and fragment", required: true },
  );
}

/** A URL that is sent in a header. */
export function headerUrl(): Shape<string> {
  return setting(
    z
      .string()
      .regex(/^https?:\/\/[!-"$-?A-~]+$/)
      .refine((text) => URL.canParse(text)),
    { expected: "an http:// or https:// URL in ASCII without user name and fragment", required: true },
  );
}

/** A value of an HTTP header. */
export function headerValue(): Shape<string> {
  return setting(z.string().regex(/^[!-~]([ -~]*[!-~])?$/), {
    expected: "one line of ASCII text without blanks around it",
    required: true,
  });
}

/** A header's name: read in lower case, as Node spells the names of incoming headers. */
export function headerName(): Shape<string> {
  return setting(
    z
      .string()
      .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/)
      .transform((text) => text.toLowerCase()),
    { expected: "a header name such as X-App-Id" },
  );
}

/** Text with nothing in it that could break a line, and no blanks at its ends to be missed. */
export const ONE_LINE_PATTERN = /^[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u;

const oneLine = "one line of text without blanks around it; quote it if it looks like a number";

export function text({ required }: { required: boolean }): Shape<string> {
  return setting(z.string().regex(ONE_LINE_PATTERN), { expected: oneLine, required });
}

export function optionalSecret(expected = oneLine): Shape<string | null, string | null> {
  return setting(z.string().regex(ONE_LINE_PATTERN).nullable(), { expected, secret: true });
}

/** What can stand in a header behind `Bearer` (RFC 6750, section 2.1). */
export const TOKEN_PATTERN = /^[A-Za-z0-9._~+/-]+=*$/;

export function optionalToken(): Shape<string | null, string | null> {
  return setting(z.string().regex(TOKEN_PATTERN).nullable(), {
    expected:
      "letters, digits and any of -._~+/, with = at the end at most; quote it if it looks like a number",
    secret: true,
  });
}

/**
 * The path of a file that holds a secret. Until the file was read it counts as one too: people put the secret
 * itself here by mistake, and then a message with "the path" would print it.
 */
export function optionalSecretFile(): Shape<string | null, string | null> {
  return setting(z.string().min(1).nullable(), {
    expected: "the path of a file",
    secret: true,
    shownOnceRead: true,
  });
}

/** @returns whether a value of valid settings is shown in no message */
export function isSecret(shape: z.core.$ZodType): boolean {
  const { secret = false, shownOnceRead = false } = metaOf(shape) ?? {};
  return secret && !shownOnceRead;
}

/** A Redis address: as far as a mistake in it can be told before connecting. */
export function redisUrl(): Shape<string | null, string | null> {
  return setting(
    z
      .string()
      .regex(/^rediss?:\/\/[^\s]+$/)
      .refine(isRedisAddress)
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
  return setting(
    z
      .string()
      .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]+):\d{1,5}$/)
      .transform((text) => {
        const colon = text.lastIndexOf(":");
        return { host: text.slice(0, colon).replaceAll(/[[\]]/g, ""), port: Number(text.slice(colon + 1)) };
      })
      .refine(({ port }) => port > 0 && port <= 65_535),
    { expected: "a host and a port, such as redis-0.example:6379", meaning: "One node, as host:port" },
  );
}

/** The path of a file or directory. */
export function optionalPath(what: string): z.ZodType<string | null, string | null> {
  return setting(z.string().nullable(), { expected: `the path of a ${what}` });
}

/** The neutral service name inside `application/vnd.<service>-v2+json`. */
export function mediaTypeToken(): Shape<string> {
  return setting(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.-]{0,62}$/), {
    expected: "a media-type name of 1 to 63 letters, digits, '.', '_' or '-', such as propertyservice",
    required: true,
  });
}

/** Where one record is found. */
export function recordPath(): Shape<string> {
  const path = /^(\/([A-Za-z0-9._~-]+|\{resource\}|\{serviceId\}))+$/;
  return setting(
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
  return setting(
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
  return setting(
    z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,64}$/)
      .refine((text) => text !== "other"),
    {
      expected: "1 to 64 letters, digits, '.', '_' or '-', and not the word other",
      required: true,
      meaning: "The app's name, as its requests say it",
    },
  );
}
