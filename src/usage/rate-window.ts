/** At most `limit` calls in any `windowMs` milliseconds. */
export interface RateWindow {
  /** As written in the settings, e.g. `1m`. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
}

/**
 * The limits in force at a moment, as the ledger keeps them with each send: `limit/ms` of each window, as in
 * `60/60000,10000/86400000`. It is short, because it is in every line.
 */
export function limitsText(windows: readonly Pick<RateWindow, "limit" | "windowMs">[]): string {
  return windows.map(({ limit, windowMs }) => `${limit}/${windowMs}`).join(",");
}

/**
 * @returns by the length of the window in milliseconds: its limit; nothing where the text is empty or not of
 *   this form, and so nobody knows what they were
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
