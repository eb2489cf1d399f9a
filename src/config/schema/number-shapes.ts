/**
 * Shapes for numbers, durations, sizes, budgets and choices. Each shape describes what it expects, because messages about a
 * wrong setting use this description instead of the validator's own text.
 */
import * as z from "zod";

import { setting, type Shape, shaped } from "./setting.ts";
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

export const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;

/** Node's timers cannot be much longer: their delay is a 32-bit number of milliseconds. */
const LONGEST_TIMER_MS = 24 * DAY_MS;

interface DurationBounds {
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** A duration, read to milliseconds; bounds inclusive. */
export function duration({ minMs = 1, maxMs = LONGEST_TIMER_MS }: DurationBounds = {}): Shape<number> {
  const expected = `a duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}, such as 250ms, 5m or 1h`;
  const toMs = (text: string): number => parseDuration(text) ?? Number.NaN;
  const inBounds = z.number().min(minMs).max(maxMs);
  return shaped(z.string().regex(DURATION_PATTERN).transform(toMs).pipe(inBounds), { expected });
}

/** The kinds of answers that have their own lifetimes. */
type Kind = "listings" | "sold" | "areas" | "records" | "images";

interface PerKindDeclaration {
  readonly minMs?: number;
  readonly default: Readonly<Record<Kind, string>>;
  readonly env?: string;
  readonly description: string;
}

/** One lifetime for each kind of answer, reloadable. One duration in its place sets all of them. */
export function perKind({ minMs = 1, ...declaration }: PerKindDeclaration): PerKindShape {
  const each = (): Shape<number> => duration({ minMs, maxMs: YEAR_MS });
  const section = z.strictObject({
    listings: each(),
    sold: each(),
    areas: each(),
    records: each(),
    images: each(),
  });
  const expected = "one duration for all kinds of answers, such as 5m, or a section with one for each";
  return setting(shaped(section, { expected }), { ...declaration, reloadable: true });
}

type PerKindShape = Shape<Record<Kind, number>, Record<Kind, string>>;

/** A size above zero, read to bytes. */
export function size(): Shape<number> {
  const toBytes = (text: string): number => parseSize(text) ?? Number.NaN;
  const shape = z.string().regex(SIZE_PATTERN).transform(toBytes).pipe(z.number().min(1));
  return shaped(shape, { expected: "a size above zero with its unit, such as 512KiB or 256MiB" });
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

/** The ledger keeps each call for as long. */
const LONGEST_WINDOW_MS = 35 * DAY_MS;

/** Requests per window. */
export function budget(): Shape<readonly BudgetWindow[]> {
  const shape = z
    .string()
    .regex(BUDGET_PATTERN)
    .transform((text, context) => {
      const windows = parseBudget(text);
      if (windows?.every(({ windowMs }) => windowMs <= LONGEST_WINDOW_MS)) return windows;
      context.addIssue("not a budget");
      return z.NEVER;
    });
  const expected =
    'requests per window such as "60/1m,10000/1d": whole numbers above zero, each window once and at most 35d';
  return shaped(shape, { expected });
}
