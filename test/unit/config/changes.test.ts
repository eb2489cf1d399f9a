/** What a reload says has changed. */
import { expect, it } from "vitest";

import { changesBetween, describeChange } from "../../../src/config/changes.ts";
import { examineConfig, type UsableSettings } from "../../../src/config/load.ts";
import { MINIMAL } from "./config-fixture.ts";

function read(yaml: string, env: Record<string, string> = {}): UsableSettings {
  const { usable, problems } = examineConfig({
    env: { ...MINIMAL, UPSTREAM_URL: "http://sandbox", BUDGET: "", ...env, CONFIG_FILE: "gateway.yaml" },
    readFile: () => yaml,
  });
  if (usable === undefined) throw new Error(problems.join("\n"));
  return usable;
}

it.each([
  ["", "", []],
  ["", "cache: { ttl: { sold: 2h } }", ["cache.ttl.sold: 1h → 2h"]],
  [
    "budget: { limit: 60/1m, mode: observe }",
    "budget: { limit: '30/1m,100/1h' }",
    ["budget.limit: 60/1m → 30/1m,100/1h", "budget.mode: observe → enforce"],
  ],
  [
    "server: { corsOrigins: [] }",
    "server: { corsOrigins: ['https://a'] }",
    ['server.corsOrigins: [] → ["https://a"]'],
  ],
  ["apps: [{ id: web, weight: 2 }]", "apps: { listed: [{ id: web, weight: 2 }] }", []],
  [
    "apps: [{ id: web, weight: 2 }, { id: old }]",
    "apps: [{ id: new, perDay: 10 }, { id: web, weight: 3 }]",
    [
      "apps.web.weight: 2 → 3",
      "apps.old.id: old → nothing",
      "apps.new.id: nothing → new",
      "apps.new.perDay: nothing → 10",
    ],
  ],
  // A URL may hold a copied key.
  ["", "warm: [{ url: '/areas?key=copied' }]", ["warm: changed"]],
] as [string, string, string[]][])("between %j and %j", (before, after, expected) => {
  const changes = changesBetween(read(before), read(after));
  expect(changes.map(describeChange)).toEqual(expected);
  expect(changes.every(({ isReloadable }) => isReloadable)).toBe(true);
});

it("a secret is not shown, and needs a restart", () => {
  const [before, after] = ["one", "two"].map((word) =>
    read("", { REDIS_URL: `redis://user:pass-${word}@redis` }),
  );
  const changes = before && after && changesBetween(before, after);
  expect(changes).toEqual([{ path: "redis.url", isReloadable: false }]);
});
