import * as z from "zod";

import { setting } from "../setting.ts";
import { DAY_MS, duration, fraction, integer, oneOf } from "../shapes.ts";

/** How pages of a search are answered from larger blocks of its results. */
export const pages = z.strictObject({
  fold: setting(oneOf("on", "off"), {
    default: "on",
    env: "PAGES_FOLD",
    reloadable: true,
    description:
      "Whether the gateway fetches large blocks of a search and answers pages from them. off: it fetches each page by " +
      "itself.",
  }),
  block: setting(integer(10, 500), {
    default: 500,
    reloadable: true,
    description: "The number of records in a block. The API allows at most 500.",
  }),
  verify: setting(fraction(0, 1), {
    default: 0.001,
    reloadable: true,
    description:
      "The part of the pages cut from blocks that the gateway compares with the API's own page, while at least half of " +
      "the budget is left.",
  }),
  maxExtraLatency: setting(duration({ minMs: 0, maxMs: DAY_MS }), {
    default: "250ms",
    reloadable: true,
    description:
      "If a block takes longer than a page by more than this, the gateway fetches the first page of a search by itself, " +
      "and the block when a caller asks for a second page.",
  }),
});

/** How narrower searches are computed from cached broader ones. */
export const derive = z.strictObject({
  mode: setting(oneOf("off", "shadow", "on"), {
    default: "shadow",
    env: "DERIVE_MODE",
    reloadable: true,
    description:
      "Whether the gateway computes the answer to a search from the stored blocks of a broader one. shadow: it only " +
      "compares what it would compute with answers that it fetches anyway, and learns from them how the API filters. " +
      "on: it also answers searches whose filters have passed minSamples comparisons. Needs pages.fold.",
  }),
  minSamples: setting(integer(1, 1_000), {
    default: 20,
    reloadable: true,
    description:
      "How many comparisons must agree, without any contradiction, before the gateway uses a filter.",
  }),
  sample: setting(fraction(0, 1), {
    default: 0.01,
    reloadable: true,
    description:
      "The part of the computed answers that the gateway compares with the API's own, while at least half of the budget " +
      "is left.",
  }),
});
