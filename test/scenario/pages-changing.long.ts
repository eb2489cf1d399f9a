/** Records appear, change and disappear while callers walk through 20,000 pages. */
import { expect, it } from "vitest";

import { walkWhileChanging } from "../support/changing-upstream.ts";

it("every one of 20,000 pages is a slice of one state of the upstream", { timeout: 3_600_000 }, async () => {
  const { seen } = await walkWhileChanging({ pages: 20_000, seed: 2 });
  expect(seen).toBeGreaterThan(1_000);
});
