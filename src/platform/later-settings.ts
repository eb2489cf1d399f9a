/**
 * Settings with a fixed name and meaning that this version does not have yet. They are refused when
 * set, because a setting that is silently ignored is believed to work. A name covers all below it.
 */
export const LATER_SETTINGS: ReadonlySet<string> = new Set([
  "apps[].mayForceRefresh",
  "cache.staleWhileRevalidate",
  "cache.honourUpstream",
  "cache.minRefreshInterval",
  "cache.ttlMin",
  "cache.ttlMax",
  "cache.earlyRefreshAbove",
]);
