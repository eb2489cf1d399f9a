/** At most `limit` calls in any `windowMs` milliseconds. */
export interface RateWindow {
  /** As written in the settings, e.g. `1m`. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
}

/**
 * The limits in force, as the ledger keeps them with each call: `limit/ms` of each window, such as
 * `60/60000,10000/86400000`. The text is short, because every line has it.
 */
export function limitsText(windows: readonly Pick<RateWindow, "limit" | "windowMs">[]): string {
  return windows.map(({ limit, windowMs }) => `${limit}/${windowMs}`).join(",");
}

/**
 * @param text the limits that permitted a call
 * @returns the limit of the window then; infinite if there was none of this length; the present one if the text has another form
 */
export function limitIn(text: string, { limit, windowMs }: RateWindow): number {
  if (!/^\d+\/\d+(,\d+\/\d+)*$/.test(text)) return limit;
  const found = text.split(",").find((one) => one.endsWith(`/${windowMs}`));
  return found === undefined ? Number.POSITIVE_INFINITY : Number.parseInt(found, 10);
}
