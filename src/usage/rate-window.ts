/** At most `limit` calls in any `windowMs` milliseconds. */
export interface RateWindow {
  /** As written in the settings, e.g. `1m`. */
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
}
