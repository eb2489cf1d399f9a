/** The calls in flight of this process, by app. */
import type { WindowState } from "./limiter.ts";

export class InFlight {
  readonly #byApp = new Map<string, number>();

  /** A call of an app begins (1) or has ended (-1). */
  count(app: string, by: 1 | -1): void {
    const count = (this.#byApp.get(app) ?? 0) + by;
    if (count > 0) this.#byApp.set(app, count);
    else this.#byApp.delete(app);
  }

  /** The calls as a window, because apps share both in the same way. @param limit most calls in flight */
  asWindow(limit: number): WindowState {
    const spent = [...this.#byApp.values()].reduce((sum, count) => sum + count, 0);
    const remaining = limit - spent;
    return {
      name: "in flight",
      windowMs: 0,
      limit,
      spent,
      reserved: 0,
      remaining,
      freeAt: [],
      byApp: this.#byApp,
    };
  }
}
