import * as z from "zod";

import { setting, shaped } from "./setting.ts";
import { DAY_MS, duration, flag, oneOf, perKind, size } from "./number-shapes.ts";

/** How long answers are stored, fresh and served. */
export const cache = z.strictObject({
  maxBytes: setting(size(), {
    default: "256MiB",
    description: "The most memory for stored answers. The least recently used are evicted first.",
  }),
  maxDiskBytes: setting(size(), {
    default: "1GiB",
    description: "The most disk space for stored answers. It applies with dataDir only.",
  }),
  ttlMs: perKind({
    default: { listings: "5m", sold: "1h", areas: "24h", records: "10m", images: "24h" },
    env: "CACHE_TTL",
    description: "How long an answer stays fresh.",
  }),
  lifetimes: setting(oneOf("learned", "fixed"), {
    default: "learned",
    env: "CACHE_LIFETIMES",
    reloadable: true,
    description:
      "Whether the gateway learns how long each answer stays fresh, from a third to three times ttl, so that the same number of " +
      "calls leaves fewer out-of-date answers. fixed: each answer stays fresh for ttl.",
  }),
  staleWhileRevalidateMs: perKind({
    minMs: 0,
    default: { listings: "1m", sold: "15m", areas: "12h", records: "2m", images: "12h" },
    env: "CACHE_STALE_WHILE_REVALIDATE",
    description: "How long an expired answer is still served immediately, and refreshed in the background.",
  }),
  staleIfErrorMs: perKind({
    minMs: 0,
    default: { listings: "24h", sold: "24h", areas: "24h", records: "24h", images: "24h" },
    env: "CACHE_STALE_IF_ERROR",
    description: "How long an expired answer may be served if the gateway cannot get a new one.",
  }),
  maxWaitForFreshMs: setting(duration(), {
    default: "1s",
    reloadable: true,
    description: "The longest time that a caller waits for a new answer when a stale one may be served.",
  }),
  negativeTtlMs: perKind({
    minMs: 0,
    default: { listings: "1m", sold: "1m", areas: "1m", records: "1m", images: "1m" },
    description: "How long a 404 or 400 of the API is stored.",
  }),
  maxAgeEverMs: setting(duration({ maxMs: 2 * DAY_MS }), {
    default: "24h",
    reloadable: true,
    description: "The greatest age of any answer that a caller gets. It shortens a longer ttl.",
  }),
  honourUpstream: setting(flag(), {
    default: true,
    reloadable: true,
    description: "Whether the API's headers can shorten these times or forbid storing.",
  }),
});

const warmUrl = z.strictObject({
  url: setting(z.string().regex(/^\/\S*$/), {
    required: true,
    expected: "a path and query, such as /listings?areaId=76",
    description: "Path and query, as a caller writes them.",
  }),
  everyMs: setting(duration({ minMs: 1_000 }).nullable().default(null), {
    expected: "a duration from 1s on, such as 5m",
    description: "The interval between fetches. Without it, the answer is fetched shortly before it expires.",
  }),
  app: setting(z.string().min(1).default("other"), {
    expected: "the id of an app",
    description: "The app whose share of the budget pays.",
  }),
  format: setting(oneOf("json", "v2").default("json"), {
    expected: "one of json, v2",
    description: "json, or v2 for version 2 of the format.",
  }),
});

/** Answers that the gateway fetches before a caller asks for them. A URL may hold a copied key, so no message shows it. */
export const warm = setting(shaped(z.array(warmUrl), { expected: "", secret: true }), {
  default: [],
  reloadable: true,
  expected: "a list of URLs, each as `- url: /listings?areaId=76`, and optionally with every, app and format",
  description:
    "The URLs whose answers the gateway fetches before a caller asks, each as `- url: /listings?areaId=76`. every: the interval; without it, shortly before the answer expires. app: the app whose share pays (other). format: json (the default) or v2.",
});

/** A URL to keep warm. */
export type WarmUrl = z.output<typeof warmUrl>;
