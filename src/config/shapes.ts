/**
 * Shapes for numbers, durations, sizes, budgets and choices. Each shape describes what it expects, because messages about a
 * wrong setting use this description instead of the validator's own text.
 */
import * as z from "zod";

import { factsOf, setting, type Shape, shaped, type Unit } from "./setting.ts";
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

/** A shape whose values have a unit. */
type Measured<S extends z.ZodType, U extends Unit> = z.core.$ZodBranded<S, U>;

export const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;

/** Node's timers cannot be much longer: their delay is a 32-bit number of milliseconds. */
const LONGEST_TIMER_MS = 24 * DAY_MS;

interface DurationBounds {
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** A duration, read to milliseconds; bounds inclusive. */
export function duration(bounds: DurationBounds = {}): Measured<Shape<number>, "Ms"> {
  const shape = plainDuration(bounds);
  return shaped(shape.brand<"Ms">(), { ...factsOf(shape), unit: "Ms" });
}

/** A duration that is only compared with the clock, so it may be longer than a timer. */
export function lifetime(): Measured<Shape<number>, "Ms"> {
  return duration({ maxMs: YEAR_MS });
}

function plainDuration({ minMs = 1, maxMs = LONGEST_TIMER_MS }: DurationBounds): Shape<number> {
  const expected = `a duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}, such as 250ms, 5m or 1h`;
  const toMs = (text: string): number => parseDuration(text) ?? Number.NaN;
  const inBounds = z.number().min(minMs).max(maxMs);
  return shaped(z.string().regex(DURATION_PATTERN).transform(toMs).pipe(inBounds), { expected });
}

/** The kinds of answers that have their own lifetimes, and their names in descriptions. */
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

/** A section with one lifetime for each kind of answer, all reloadable. One duration in its place sets all of them. */
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
  const expected = "one duration for all kinds of answers, such as 5m, or a section with one for each";
  shaped(section, { expected, unit: "Ms" });
  return setting(section.brand<"Ms">(), { description: description("an answer"), ...shared });
}

type PerKindShape = Measured<Shape<Record<Kind, number>, Record<Kind, string>>, "Ms">;

/** A size above zero, read to bytes; `maxBytes` inclusive. */
export function size({ maxBytes }: { maxBytes?: number } = {}): Measured<Shape<number>, "Bytes"> {
  const most = maxBytes === undefined ? "" : `, at most ${maxBytes / 1024}KiB`;
  const toBytes = (text: string): number => parseSize(text) ?? Number.NaN;
  const inBounds = z
    .number()
    .min(1)
    .max(maxBytes ?? Number.MAX_SAFE_INTEGER);
  const shape = z.string().regex(SIZE_PATTERN).transform(toBytes).pipe(inBounds);
  const expected = `a size above zero with its unit, such as 512KiB or 256MiB${most}`;
  return shaped(shape.brand<"Bytes">(), { expected, unit: "Bytes" });
}

/** A whole number of bytes; bounds inclusive. */
export function byteCount(min: number, max: number): Measured<Shape<number, number>, "Bytes"> {
  const shape = integer(min, max);
  return shaped(shape.brand<"Bytes">(), { ...factsOf(shape), unit: "Bytes" });
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
  const expected = "a port number from 0 to 65535, where 0 means any free port";
  return shaped(z.int().min(0).max(65_535), { expected });
}

export function oneOf<const Words extends readonly string[]>(
  ...words: Words
): Shape<Words[number], Words[number]> {
  return shaped(z.enum(words), { expected: `one of ${words.join(", ")}` });
}

/** Requests per window. */
export function budget(): Shape<readonly BudgetWindow[]> {
  const shape = z
    .string()
    .regex(BUDGET_PATTERN)
    .transform((text, context) => {
      const windows = parseBudget(text);
      if (windows) return windows;
      context.addIssue("not a budget");
      return z.NEVER;
    });
  const expected = 'requests per window such as "60/1m,10000/1d": whole numbers above zero, each window once';
  return shaped(shape, { expected });
}
