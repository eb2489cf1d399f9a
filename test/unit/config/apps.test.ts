import { describe, expect, it } from "vitest";

import { load, MINIMAL, problemsOf, problemsOfFile } from "./config-fixture.ts";

describe("an app", () => {
  it("has weight 1, no perDay, interactive priority and no forced refreshes by default", () => {
    const yaml =
      "apps:\n  - id: web\n" +
      "  - { id: sync, weight: 0.5, perDay: 2000, priority: background, mayForceRefresh: true }\n";
    expect(load({ ...MINIMAL, CONFIG_FILE: "gateway.yaml" }, { "gateway.yaml": yaml }).apps).toEqual([
      { id: "web", weight: 1, perDay: null, priority: "interactive", mayForceRefresh: false, token: null },
      { id: "sync", weight: 0.5, perDay: 2_000, priority: "background", mayForceRefresh: true, token: null },
    ]);
  });
});

describe("unlisted apps", () => {
  const list = "[{ id: web, weight: 4 }]";

  it.each([
    ["a plain list", `apps: ${list}`, {}, { weight: 1, max: 100 }],
    ["a section", `apps: { default: 2.5, maxUnlisted: 0, listed: ${list} }`, {}, { weight: 2.5, max: 0 }],
    ["a section with the list alone", `apps: { listed: ${list} }`, {}, { weight: 1, max: 100 }],
    ["a plain list and the environment", `apps: ${list}`, { APPS_DEFAULT: "0.5" }, { weight: 0.5, max: 100 }],
    [
      "a section and the environment, which wins",
      `apps: { default: 2, maxUnlisted: 7, listed: ${list} }`,
      { APPS_MAX_UNLISTED: "8" },
      { weight: 2, max: 8 },
    ],
  ])("get their weight and maximum from %s", (_name, yaml, env, unlistedApps) => {
    const config = load({ ...MINIMAL, ...env, CONFIG_FILE: "gateway.yaml" }, { "gateway.yaml": yaml });
    expect(config.apps).toMatchObject([{ id: "web", weight: 4, perDay: null }]);
    expect(config.unlistedApps).toEqual(unlistedApps);
  });
});

describe("a mistake in the settings of apps is reported with its place:", () => {
  it.each([
    [
      "a reserved app",
      "apps:\n  - id: web\n  - id: other",
      "gateway.yaml:3: apps[1].id: found \"other\"; expected 1 to 64 letters, digits, '.', '_' or '-', and not the word other",
    ],
    [
      "an app without an id",
      "apps:\n  - {}",
      "gateway.yaml:2: apps[0].id: missing; expected 1 to 64 letters, digits, '.', '_' or '-', and not the word other",
    ],
    [
      "an app twice",
      "apps:\n  - id: web\n  - id: web",
      'gateway.yaml:3: apps[1].id: "web" is the id of apps[0] already; expected each id once',
    ],
    [
      "an unknown key of an app",
      "apps:\n  - id: web\n    name: Web",
      "gateway.yaml:3: apps[0].name: unknown setting; known in apps[0]: id, weight, perDay, priority, " +
        "mayForceRefresh, tokenFile",
    ],
    [
      "no apps at all",
      "apps: 5",
      "gateway.yaml:1: apps: found 5; expected a list of apps, or a section with default, maxUnlisted and listed",
    ],
    [
      "a reserved app in a section of apps",
      "apps:\n  listed:\n    - id: web\n    - id: other",
      "gateway.yaml:4: apps.listed[1].id: found \"other\"; expected 1 to 64 letters, digits, '.', '_' or '-', and not the word other",
    ],
    [
      "an app twice in a section of apps",
      "apps:\n  listed:\n    - id: web\n    - id: web",
      'gateway.yaml:4: apps.listed[1].id: "web" is the id of apps.listed[0] already; expected each id once',
    ],
    [
      "an unknown key of an app in a section of apps",
      "apps:\n  listed:\n    - { id: web, name: Web }",
      "gateway.yaml:3: apps.listed[0].name: unknown setting; known in apps.listed[0]: id, weight, perDay, priority, " +
        "mayForceRefresh, tokenFile",
    ],
    [
      "an app as a key of the section of apps",
      "apps: { web: { weight: 2 } }",
      "gateway.yaml:1: apps.web: unknown setting; known in apps: default, maxUnlisted, listed",
    ],
    [
      "unlisted apps without weight",
      "apps: { default: 0 }",
      "gateway.yaml:1: apps.default: found 0; expected a number above 0, at most 1000",
    ],
    [
      "too many unlisted apps",
      "apps: { maxUnlisted: 10001 }",
      "gateway.yaml:1: apps.maxUnlisted: found 10001; expected a whole number from 0 to 10000",
    ],
    [
      "an app without weight",
      "apps: [{ id: web, weight: 0 }]",
      "gateway.yaml:1: apps[0].weight: found 0; expected a number above 0, at most 1000",
    ],
    [
      "an app that weighs too much",
      "apps: [{ id: web, weight: 1000.5 }]",
      "gateway.yaml:1: apps[0].weight: found 1000.5; expected a number above 0, at most 1000",
    ],
    [
      "half a request a day",
      "apps: [{ id: web, perDay: 0.5 }]",
      "gateway.yaml:1: apps[0].perDay: found 0.5; expected a whole number above zero",
    ],
    [
      "a priority that only the gateway gives",
      "apps: [{ id: web, priority: refresh }]",
      'gateway.yaml:1: apps[0].priority: found "refresh"; expected one of interactive, background',
    ],
  ])("%s", (_name, yaml, line) => {
    expect(problemsOfFile(yaml)).toEqual([line]);
  });

  it.each([
    ["APPS_DEFAULT", "1001", "apps.default: found 1001; expected a number above 0, at most 1000"],
    ["APPS_MAX_UNLISTED", "1.5", 'apps.maxUnlisted: found "1.5"; expected a whole number from 0 to 10000'],
  ])("%s=%s", (name, value, line) => {
    expect(problemsOf({ ...MINIMAL, [name]: value })).toEqual([`environment variable ${name}: ${line}`]);
  });
});
