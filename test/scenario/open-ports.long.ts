import { it } from "vitest";

import { expectToWithstand } from "../support/open-ports.ts";

it(
  "ports that get random bytes, resets and half-closed connections for a minute answer with nothing but refusals, and serve others meanwhile",
  () => expectToWithstand(60_000),
  120_000,
);
