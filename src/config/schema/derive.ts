import * as z from "zod";

import { setting } from "../setting.ts";
import { fraction, integer, oneOf } from "../shapes.ts";

/** How narrower searches are computed from cached broader ones. */
export const derive = z.strictObject({
  mode: setting(oneOf("off", "shadow", "on"), {
    default: "shadow",
    env: "DERIVE_MODE",
    reloadable: true,
    description:
      "Whether the gateway computes the answer to a search from the stored blocks of a broader one. shadow: it only " +
      "compares what it would compute with answers that it fetches anyway, and learns from them how the API filters. " +
      "on: it also answers with filters that it knows well enough. Needs pages.fold.",
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
