/**
 * Parses durations, sizes and budgets in the settings.
 */

/** `250ms`, `5m`, `1d`: a whole number and a unit. */
export const DURATION_PATTERN = /^(\d{1,12})(ms|s|m|h|d)$/;

/** `512KiB`, `4MiB`: a whole number and a unit. */
export const SIZE_PATTERN = /^(\d{1,12})(B|KiB|MiB|GiB)$/;

/** `60/1m,10000/1d`: requests per window, one window or several. */
export const BUDGET_PATTERN =
  /^\s*[1-9]\d{0,8}\/[1-9]\d{0,8}(ms|s|m|h|d)\s*(,\s*[1-9]\d{0,8}\/[1-9]\d{0,8}(ms|s|m|h|d)\s*)*$/;

const MS_PER_UNIT = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

const BYTES_PER_UNIT = { B: 1, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 } as const;

/** At most `limit` requests in any `windowMs` milliseconds. */
export interface BudgetWindow {
  readonly limit: number;
  readonly windowMs: number;
  /** The window's length in its largest whole unit: `60s` and `1m` are both named `1m`. */
  readonly name: string;
}

/** @returns the milliseconds of a duration such as `5m`; `undefined` if the text is not a duration */
export function parseDuration(text: string): number | undefined {
  return parseQuantity(text, DURATION_PATTERN, MS_PER_UNIT);
}

/** @returns the bytes of a size such as `4MiB`; `undefined` if the text is not a size */
export function parseSize(text: string): number | undefined {
  return parseQuantity(text, SIZE_PATTERN, BYTES_PER_UNIT);
}

/** @returns a duration in its largest whole unit: 90000 ms is `90s`, 86400000 ms is `1d` */
export function formatDuration(ms: number): string {
  for (const unit of ["d", "h", "m", "s"] as const) {
    if (ms > 0 && ms % MS_PER_UNIT[unit] === 0) return `${ms / MS_PER_UNIT[unit]}${unit}`;
  }
  return `${ms}ms`;
}

/**
 * Parses a budget such as `60/1m,10000/1d`.
 * @returns its windows in the written order; `undefined` if the text is not a budget, a number is not positive, or a window
 *   occurs twice
 */
export function parseBudget(text: string): BudgetWindow[] | undefined {
  if (!BUDGET_PATTERN.test(text)) return undefined;
  const windows = text.split(",").map((item) => {
    const [limit = "", window = ""] = item.trim().split("/");
    const windowMs = parseDuration(window) ?? Number.NaN;
    return { limit: Number(limit), windowMs, name: formatDuration(windowMs) };
  });
  const distinct = new Set(windows.map((window) => window.windowMs));
  const valid = windows.every((window) => Number.isSafeInteger(window.windowMs));
  return valid && distinct.size === windows.length ? windows : undefined;
}

function parseQuantity(
  text: string,
  pattern: RegExp,
  units: Readonly<Record<string, number>>,
): number | undefined {
  const [, number, unit = ""] = pattern.exec(text) ?? [];
  const factor = units[unit];
  if (number === undefined || factor === undefined) return undefined;
  const value = Number(number) * factor;
  return Number.isSafeInteger(value) ? value : undefined;
}
