import { describe, expect, it } from "vitest";

import { play } from "./conformance-play.ts";
import { STORING } from "./conformance-storing.ts";
import type { Scenario } from "./conformance-vocabulary.ts";

const SCENARIOS: readonly Scenario[] = [...STORING];

describe("RFC 9111 and RFC 5861", () => {
  it.each(SCENARIOS)("$id: $title", play);
});
