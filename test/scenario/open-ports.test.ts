import { describe, it } from "vitest";

import { expectToWithstand } from "../support/open-ports.ts";

describe("ports that get random bytes, resets and half-closed connections for three seconds", () => {
  it("answer with nothing but refusals, and serve others meanwhile", () => expectToWithstand(3_000));
});
