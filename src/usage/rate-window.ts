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
 * @returns the limit of each window, by its length in milliseconds; `undefined` if the text is empty or has another
 *   form, so that the limits are unknown
 */
export function limitsIn(text: string): ReadonlyMap<number, number> | undefined {
  if (!/^\d+\/\d+(,\d+\/\d+)*$/.test(text)) return undefined;
  return new Map(
    text.split(",").map((window) => {
      const [limit, windowMs] = window.split("/");
      return [Number(windowMs), Number(limit)];
    }),
  );
}
