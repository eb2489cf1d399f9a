import type { Terms } from "./arbiter.ts";

/** The longest span of time that anything in the terms looks back, in milliseconds. */
export function longestMs({ windows, apps }: Terms): number {
  const perDay = [...apps.values()].some((app) => app.perDay !== null);
  return Math.max(...windows.map(({ windowMs }) => windowMs), perDay ? 86_400_000 : 0);
}

/**
 * Terms that follow the settings: what is read of them is what holds by then. What was sent stays counted
 * whatever they become.
 */
export function followingTerms(current: () => Terms): Terms {
  return {
    get windows() {
      return current().windows;
    },
    get apps() {
      return current().apps;
    },
    get reserve() {
      return current().reserve;
    },
    get maxCoolOffMs() {
      return current().maxCoolOffMs;
    },
    get leaseMs() {
      return current().leaseMs;
    },
  };
}
