import { describe, expect, it } from "vitest";

import { DIRECTIVES } from "./conformance-directives.ts";
import { FRESHNESS } from "./conformance-freshness.ts";
import { play } from "./conformance-play.ts";
import { STALE } from "./conformance-stale.ts";
import { STORING } from "./conformance-storing.ts";
import { VALIDATION } from "./conformance-validation.ts";
import type { Scenario } from "./conformance-vocabulary.ts";

const SCENARIOS: readonly Scenario[] = [...STORING, ...FRESHNESS, ...VALIDATION, ...DIRECTIVES, ...STALE];

describe("RFC 9111 and RFC 5861", () => {
  it.each(SCENARIOS)("$id: $title", play);
});
