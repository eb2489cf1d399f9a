import * as z from "zod";

import { setting } from "../setting.ts";
import { DAY_MS, duration, flag, fraction, lifetime, perKind, size } from "../shapes.ts";
import { optionalPath } from "../text-shapes.ts";

/** How long answers are stored, fresh and served. */
export const cache = z.strictObject({
  maxBytes: setting(size(), {
    default: "256MiB",
    description:
      "The most memory for stored answers. The gateway evicts the least recently used answers first.",
  }),
  maxDiskBytes: setting(size(), {
    default: "1GiB",
    description: "The most disk space for stored answers. It applies with dataDir only.",
  }),
  retention: setting(lifetime(), {
    default: "48h",
    reloadable: true,
    description: "How long an answer is stored, fresh or stale. Then it is deleted.",
  }),
  ttl: perKind({
    default: { listings: "5m", sold: "1h", areas: "24h", records: "10m", images: "24h" },
    env: "CACHE_TTL",
    description: (answer) => `How long ${answer} stays fresh.`,
  }),
  staleWhileRevalidate: perKind({
    minMs: 0,
    default: { listings: "1m", sold: "15m", areas: "12h", records: "2m", images: "12h" },
    env: "CACHE_STALE_WHILE_REVALIDATE",
    description: (answer) =>
      `How long the gateway serves ${answer} immediately after it expired, and refreshes it in the background.`,
  }),
  staleIfError: perKind({
    minMs: 0,
    default: { listings: "24h", sold: "24h", areas: "24h", records: "24h", images: "24h" },
    env: "CACHE_STALE_IF_ERROR",
    description: (answer) =>
      `How long the gateway may serve ${answer} after it expired, if it cannot get a new one.`,
  }),
  maxWaitForFresh: setting(duration(), {
    default: "1s",
    reloadable: true,
    description:
      "The longest time a caller waits for a new answer when the gateway could serve a stale one instead.",
  }),
  negativeTtl: perKind({
    minMs: 0,
    default: { listings: "1m", sold: "1m", areas: "1m", records: "1m", images: "1m" },
    description: (answer) => `How long the gateway remembers that the API refused or did not find ${answer}.`,
  }),
  maxAgeEver: setting(lifetime(), {
    default: "24h",
    reloadable: true,
    description:
      "The greatest age of any answer that a caller gets, fresh or stale. It shortens a longer ttl.",
  }),
  honourUpstream: setting(flag(), {
    default: true,
    reloadable: true,
    description:
      "Whether the API's Cache-Control and Expires headers can shorten these times or forbid storing.",
  }),
  minRefreshInterval: setting(duration({ minMs: 0, maxMs: DAY_MS }), {
    default: "10s",
    reloadable: true,
    description:
      "The gateway does not refresh an answer younger than this when a caller asks for a newer one.",
  }),
  earlyRefreshAbove: setting(fraction(0, 1), {
    default: 0.5,
    reloadable: true,
    description:
      "The gateway refreshes popular answers shortly before they expire only while more than this part of the budget " +
      "is left.",
  }),
});

/** Answers that the gateway fetches before a caller asks for them. */
export const warm = z.strictObject({
  file: setting(optionalPath("file"), {
    env: "WARM_FILE",
    reloadable: true,
    description: "The file that lists URLs to keep warm. Empty means config/warm.yaml of this project.",
  }),
});
