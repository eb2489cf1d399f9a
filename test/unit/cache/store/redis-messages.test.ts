import { describe, expect, it } from "vitest";

import { readMessage, waitingMessage } from "../../../../src/cache/store/redis-messages.ts";
import type { Party } from "../../../../src/types.ts";

const PARTY: Party = { apps: ["web", "other"], priority: "background" };

describe("the message that says who waits", () => {
  it("says it, and nothing of what they wait for", () => {
    const text = waitingMessage("a holder", "a replica", PARTY, 500);
    expect(readMessage(text)).toEqual({
      kind: "waiting",
      holder: "a holder",
      from: "a replica",
      party: PARTY,
      forMs: 500,
    });
    expect(Object.keys(JSON.parse(text)).toSorted()).toEqual([
      "apps",
      "forMs",
      "from",
      "holder",
      "kind",
      "priority",
    ]);
  });

  it.each([
    ["nobody's flight", { holder: 1 }],
    ["no replica", { from: null }],
    ["no time", { forMs: "500" }],
    ["no apps", { apps: "web" }],
    ["a priority of a version to come", { priority: "at-once" }],
    ["another thing of a version to come", { kind: "waves" }],
  ])("with %s is ignored", (_what, changes) => {
    const fields = { kind: "waiting", holder: "h", from: "r", ...PARTY, forMs: 500 };
    expect(readMessage(JSON.stringify(fields))).toBeDefined();
    expect(readMessage(JSON.stringify({ ...fields, ...changes }))).toBeUndefined();
  });

  it("is not believed where it names what can be no app, or too many", () => {
    const many = Array.from({ length: 1_000 }, (_, index) => `app-${index}`);
    const appsIn = (apps: unknown): unknown =>
      Object(
        readMessage(JSON.stringify({ kind: "waiting", holder: "h", from: "r", ...PARTY, apps, forMs: 5 })),
      ).party;
    expect(appsIn(["web", "", "a b", "x".repeat(65), 5, 'a{b="c"}'])).toEqual({ ...PARTY, apps: ["web"] });
    expect(appsIn(many)).toEqual({ ...PARTY, apps: many.slice(0, 64) });
  });
});
