import { describe, expect, it } from "vitest";

import { changesBetween, describeChange } from "../../../src/config/live.ts";
import { openSettings, type UsableSettings } from "../../../src/config/load.ts";
import { SETTINGS } from "../../../src/config/schema.ts";
import { MINIMAL } from "./config-fixture.ts";

function read(yaml: string, env: Record<string, string> = {}): UsableSettings {
  return openSettings({
    env: { ...MINIMAL, ...env, CONFIG_FILE: "mine.yaml" },
    readFile: () => yaml,
  }).first;
}

const differences = (before: UsableSettings, after: UsableSettings): string[] =>
  changesBetween(before, after).map(describeChange);

describe("the list of changes", () => {
  it.each([
    ["", "", []],
    ["cache: { ttl: { sold: 1h } }", "cache: { ttl: { sold: 60m } }", []],
    ["", "cache: { ttl: { sold: 2h } }", ["cache.ttl.sold: 1h → 2h"]],
    [
      "budget: { limit: 60/1m, mode: observe }",
      "budget: { limit: '30/1m,100/1h' }",
      ["budget.limit: 60/1m → 30/1m,100/1h", "budget.mode: observe → enforce"],
    ],
    ["query: { ignore: [a] }", "query: { ignore: [b] }", ['query.ignore: ["a"] → ["b"]']],
  ])("between %j and %j", (before, after, expected) => {
    expect(differences(read(before), read(after))).toEqual(expected);
  });

  it("names apps by their ids, in any order", () => {
    const before = read("apps: [{ id: web, weight: 2 }, { id: old }, { id: batch }]");
    const after = read(
      "apps: [{ id: batch, priority: background, perDay: 10 }, { id: web, weight: 3 }, { id: new }]",
    );
    expect(differences(before, after)).toEqual([
      "apps.web.weight: 2 → 3",
      'apps.old: {"id":"old","weight":1,"perDay":null,"priority":"interactive","mayForceRefresh":false,"tokenFile":null} → nothing',
      "apps.batch.perDay: nothing → 10",
      "apps.batch.priority: interactive → background",
      'apps.new: nothing → {"id":"new","weight":1,"perDay":null,"priority":"interactive","mayForceRefresh":false,"tokenFile":null}',
    ]);
    const sameInAnotherOrder = read("apps: [{ id: batch }, { id: web, weight: 2 }, { id: old }]");
    expect(differences(before, sameInAnotherOrder)).toEqual([]);
  });

  it("is the same for a plain list of apps and for apps.listed", () => {
    const before = read("apps: [{ id: web, weight: 2 }]");
    expect(differences(before, read("apps: { listed: [{ id: web, weight: 2 }] }"))).toEqual([]);
    const after = read("apps: { default: 3, listed: [{ id: web, weight: 4 }] }");
    expect(differences(before, after)).toEqual(["apps.default: 1 → 3", "apps.web.weight: 2 → 4"]);
  });

  it("does not show a secret", () => {
    const before = read("", { REDIS_URL: "redis://user:pass-one@redis:6379" });
    const after = read("", {
      REDIS_URL: "redis://user:pass-two@redis:6379",
      UPSTREAM_PRIVATE_KEY: "another-key",
    });
    expect(differences(before, after)).toEqual(["upstream.privateKey: changed", "redis.url: changed"]);
    expect(JSON.stringify(changesBetween(before, after))).not.toMatch(/pass|key-|another/);
  });
});

describe("the reloadable settings", () => {
  it("are the budget, the lifetimes, the apps, and a few others", () => {
    const live = SETTINGS.filter(({ reloadable }) => reloadable)
      .map(({ name }) => name)
      .filter((path) => !/^cache\.(ttl|staleIfError)\./.test(path));
    expect(live.toSorted()).toMatchInlineSnapshot(`
      [
        "apps.default",
        "apps.listed",
        "apps.maxUnlisted",
        "budget.concurrency",
        "budget.images",
        "budget.limit",
        "budget.maxCoolOff",
        "budget.maxWait",
        "budget.mode",
        "budget.reserve",
        "cache.earlyRefreshAbove",
        "cache.honourUpstream",
        "cache.maxAgeEver",
        "cache.maxWaitForFresh",
        "cache.minRefreshInterval",
        "cache.negativeTtl.areas",
        "cache.negativeTtl.images",
        "cache.negativeTtl.listings",
        "cache.negativeTtl.records",
        "cache.negativeTtl.sold",
        "cache.retention",
        "cache.staleWhileRevalidate.areas",
        "cache.staleWhileRevalidate.images",
        "cache.staleWhileRevalidate.listings",
        "cache.staleWhileRevalidate.records",
        "cache.staleWhileRevalidate.sold",
        "log.access",
        "log.accessSample",
        "log.level",
        "pages.fold",
        "server.corsOrigins",
        "server.drainTimeout",
        "server.stopDelay",
        "upstream.privateKey",
        "warm.file",
      ]
    `);
  });
});
