/**
 * The limits in force at a moment, as the ledger keeps them with each send: `limit/ms` of each window, as in
 * `60/60000,10000/86400000`. It is short, because it stands in every line.
 */
import type { RateWindow } from "./rate-window.ts";

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
