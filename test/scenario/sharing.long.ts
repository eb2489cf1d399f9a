import { describe, it } from "vitest";

import { expectOneCallPerMeaning } from "../support/spellings.ts";

describe("twenty thousand spellings of six hundred meanings", () => {
  it("need six hundred upstream calls, and every answer is correct", async () => {
    await expectOneCallPerMeaning(20_000, 600);
  });
});
