import type { Terms } from "./arbiter.ts";

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
