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

const DURATION_UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZE_UNITS = { B: 1, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 };
const UNITS: Readonly<Record<string, number>> = { ...DURATION_UNITS, ...SIZE_UNITS };

/** @returns the milliseconds of a duration such as `5m`, or the bytes of a size such as `4MiB`; NaN for any other text */
export function parseQuantity(text: string): number {
  const [, number, unit = ""] = /^(\d+)([A-Za-z]+)$/.exec(text) ?? [];
  return Number(number) * (UNITS[unit] ?? Number.NaN);
}

/** @returns a duration in its largest whole unit: 90000 ms is `90s`, 86400000 ms is `1d` */
export function formatDuration(ms: number): string {
  for (const unit of ["d", "h", "m", "s"] as const) {
    if (ms > 0 && ms % DURATION_UNITS[unit] === 0) return `${ms / DURATION_UNITS[unit]}${unit}`;
  }
  return `${ms}ms`;
}

/**
 * @returns the windows of a budget such as `60/1m,10000/1d`, in the written order: at most `limit` requests in any `windowMs`
 *   milliseconds. The name is the window's length in its largest whole unit: `60s` and `1m` are both named `1m`.
 */
export function parseBudget(text: string): { limit: number; windowMs: number; name: string }[] {
  return text.split(",").map((item) => {
    const [limit = "", window = ""] = item.trim().split("/");
    const windowMs = parseQuantity(window);
    return { limit: Number(limit), windowMs, name: formatDuration(windowMs) };
  });
}
