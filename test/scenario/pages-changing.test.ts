/** Records appear, change and disappear while callers walk through them. */
import { expect, it } from "vitest";

import { walkWhileChanging } from "../support/changing-upstream.ts";

it("every page is a slice of one state of the upstream", async () => {
  const { states, seen, calls, pages } = await walkWhileChanging({ pages: 400, seed: 1 });
  // It did change, pages of many states were seen, and most were cut from a block.
  expect(states).toBeGreaterThan(75);
  expect(seen).toBeGreaterThan(30);
  expect(calls).toBeLessThan(pages);
});
