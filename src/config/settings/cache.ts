import * as z from "zod";

import * as shape from "./shapes.ts";
import { setting } from "./setting.ts";

/** How long answers are stored, fresh and served. */
export const cache = z.strictObject({
  /** The most memory for stored answers. The least recently used are evicted first. */
  maxBytes: setting(shape.size, { default: "256MiB" }),
  /** The most disk space for stored answers and the ledger together. It applies with dataDir only. */
  maxDiskBytes: setting(shape.size, { default: "1GiB" }),
  /** How long an answer stays fresh. */
  ttlMs: shape.perKind(1, {
    default: { listings: "5m", sold: "1h", areas: "24h", records: "10m", images: "24h" },
    env: "CACHE_TTL",
  }),
  /**
   * Whether the gateway learns how long each answer stays fresh, from a third to three times ttl, so that the same number
   * of calls leaves fewer out-of-date answers. fixed: each answer stays fresh for ttl.
   */
  lifetimes: setting(shape.oneOf("learned", "fixed"), {
    default: "learned",
    env: "CACHE_LIFETIMES",
    reloadable: true,
  }),
  /** How long an expired answer is still served immediately, and refreshed in the background. */
  staleWhileRevalidateMs: shape.perKind(0, {
    default: { listings: "1m", sold: "15m", areas: "12h", records: "2m", images: "12h" },
    env: "CACHE_STALE_WHILE_REVALIDATE",
  }),
  /** How long an expired answer may be served if the gateway cannot get a new one. */
  staleIfErrorMs: shape.perKind(0, {
    default: { listings: "24h", sold: "24h", areas: "24h", records: "24h", images: "24h" },
    env: "CACHE_STALE_IF_ERROR",
  }),
  /** The longest time that a caller waits for a new answer when a stale one may be served. */
  maxWaitForFreshMs: setting(shape.duration(), { default: "1s", reloadable: true }),
  /** How long a 404 or 400 of the API stays fresh. */
  negativeTtlMs: shape.perKind(0, {
    default: { listings: "1m", sold: "1m", areas: "1m", records: "1m", images: "1m" },
  }),
  /** The greatest age of any answer that a caller gets. It shortens a longer ttl. */
  maxAgeEverMs: setting(shape.duration({ maxMs: 2 * shape.DAY_MS }), { default: "24h", reloadable: true }),
  /** Whether the API's headers can shorten these times or forbid storing. */
  honourUpstream: setting(shape.flag, { default: true, reloadable: true }),
});

const warmUrl = z.strictObject({
  /** Path and query, as a caller writes them. */
  url: setting(z.string().regex(/^\/\S*$/), {
    required: true,
    expected: "a path and query, such as /listings?areaId=76",
  }),
  /** The interval between fetches. Without it, the answer is fetched shortly before it expires. */
  everyMs: setting(shape.duration({ minMs: 1_000 }).nullable().default(null), {
    expected: "a duration from 1s on, such as 5m",
  }),
  /** The app whose share of the budget pays. */
  app: setting(z.string().min(1).default("other"), { expected: "the id of an app" }),
  /** json, or v2 for version 2 of the format. */
  format: setting(shape.oneOf("json", "v2").default("json"), { expected: "one of json, v2" }),
});

const WARM_URLS = "URLs, each as `- url: /listings?areaId=76`, and optionally with every, app and format";

/**
 * The URLs whose answers the gateway fetches before a caller asks, each as `- url: /listings?areaId=76`. every: the
 * interval; without it, shortly before the answer expires. app: the app whose share pays (other). format: json (the
 * default) or v2.
 */
export const warm = setting(shape.listOf(warmUrl, WARM_URLS), {
  // A URL may hold a copied key.
  secret: true,
  reloadable: true,
});
