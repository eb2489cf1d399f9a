import { describe, it } from "vitest";

import { expectOneCallPerMeaning } from "../support/spellings.ts";

describe("twenty thousand spellings of six hundred meanings", () => {
  it("cost six hundred upstream calls, and every answer is the sandbox's own for its meaning", async () => {
    await expectOneCallPerMeaning(20_000, 600);
  });
});
