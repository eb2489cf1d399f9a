/**
 * The list of what is kept warm: refused with all its mistakes, and read again with the settings.
 */
import { writeFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { ask, type Reply } from "../support/ask.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { command } from "../support/command.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import {
  AGAIN_MS,
  AREAS,
  attended,
  BEGINS_MS,
  fileWith,
  LIST,
  NACKA,
  type Started,
  startWarm,
  STOCKHOLM,
  targets,
  warmStates,
} from "../support/warm.ts";

describe("a reloaded warm list", () => {
  interface Reloaded extends Started {
    /** Writes the list anew, and has the settings read again. */
    readonly reload: (list: string, settings?: string) => Promise<Reply>;
  }

  async function startWith(list: string, settings = ""): Promise<Reloaded> {
    const WARM_FILE = fileWith(list);
    let written = settings;
    const started = await startWarm(list, { settings: () => written, env: { WARM_FILE } });
    return {
      ...started,
      async reload(next, nextSettings = settings) {
        writeFileSync(WARM_FILE, next);
        written = nextSettings;
        return await ask(`${started.gateway.adminUrl}/config/reload`, { method: "POST" });
      },
    };
  }

  it("is in force: new URLs are fetched, removed ones are not, and the others are unchanged", async () => {
    const { gateway, clock, reload } = await startWith(`urls: [{ url: "${NACKA}" }, { url: "${AREAS}" }]`);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    gateway.sandbox.clearRequests();
    const reply = await reload(`urls: [{ url: "${STOCKHOLM}", every: 2m }, { url: "${AREAS}" }]`);
    expect([reply.status, reply.json()]).toEqual([
      200,
      {
        applied: true,
        changes: [
          {
            path: "warm.json:listings?areaId=76&limit=5&offset=0",
            from: '{"every":null,"app":"other"}',
            to: "nothing",
          },
          {
            path: "warm.json:listings?areaId=1&limit=5&offset=0",
            from: "nothing",
            to: '{"every":"2m","app":"other"}',
          },
        ],
      },
    ]);
    expect(await warmStates(gateway)).toMatchObject([
      { query: "listings?areaId=1&limit=5&offset=0", last: null },
      { query: expect.stringMatching(/^areas/), last: "refreshed" },
    ]);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    expect(cacheStatus(await gateway.get(STOCKHOLM))).toMatchObject({ hit: true });
    await clock.advance(AGAIN_MS);
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    await attended({ gateway, clock });
    expect(new Set(targets(gateway))).toEqual(new Set([expect.stringContaining("areaId=1&")]));
  });

  it("may be empty, and filled again", async () => {
    const { gateway, clock, reload } = await startWith("urls: []");
    await clock.advance(BEGINS_MS);
    expect((await reload(`urls: [{ url: "${NACKA}" }]`)).status).toBe(200);
    await clock.advance(BEGINS_MS);
    expect(await attended({ gateway, clock })).toMatchObject([{ last: "refreshed" }]);
    expect((await reload("urls: []")).status).toBe(200);
    expect(await warmStates(gateway)).toEqual([]);
    await clock.advance(AGAIN_MS);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("may be another file", async () => {
    let settings = "";
    const started = await startGateway({ settings: () => settings });
    settings = `warm: { file: ${fileWith(`urls: [{ url: "${NACKA}" }]`)} }`;
    const reply = await ask(`${started.adminUrl}/config/reload`, { method: "POST" });
    expect([reply.status, Object(reply.json()).changes]).toEqual([
      200,
      [{ path: "warm.file", from: "nothing", to: expect.stringContaining("list.yaml") }, expect.anything()],
    ]);
    expect(await warmStates(started)).toMatchObject([{ query: "listings?areaId=76&limit=5&offset=0" }]);
  });

  it.each([
    ["a mistake in it", "urls: [{ url: /nowhere }]", "", [/list\.yaml:1: \/nowhere: answers of this URL/]],
    ["no list in it", "urls: 7", "", [/list\.yaml:1: urls: found 7; expected a list/]],
    [
      "one in the settings besides",
      "urls: [{ url: /nowhere }]",
      "log: { level: 7 }",
      [/log\.level/, /\/nowhere: answers of this URL/],
    ],
    [
      "an app that the settings do not know any more",
      `urls: [{ url: "${NACKA}", app: web }]`,
      "apps: []",
      [/web is not an app in the settings/],
    ],
  ])(
    "with %s is refused with all settings, and the old list stays in force",
    async (_name, list, settings, problems) => {
      const before = `urls: [{ url: "${NACKA}", app: web }]`;
      const { gateway, clock, reload } = await startWith(before, "apps: [{ id: web }]");
      await clock.advance(BEGINS_MS);
      const states = await attended({ gateway, clock });
      const reply = await reload(list, `${settings}\ncache: { ttl: { areas: 1m } }`);
      expect([reply.status, problemCode(reply)]).toEqual([422, "invalid-settings"]);
      expect(Object(reply.json()).problems).toEqual(problems.map((line) => expect.stringMatching(line)));
      expect(await warmStates(gateway)).toEqual(states);
      expect(String((await gateway.get("/areas?q=a")).headers["cache-status"])).toMatch(/ttl=86400/);
      await clock.advance(AGAIN_MS);
      await gateway.sandbox.waitForRequests(3);
      expect(await attended({ gateway, clock })).toMatchObject([{ last: "refreshed" }]);
    },
  );
});

const ENV = gatewayEnv();

/** What a command says of a list before it ends with 1, a line for each mistake. */
async function refusal(
  file: string,
  env: Record<string, string> = {},
  name: "gateway" | "config-check" = "config-check",
): Promise<string[]> {
  const { code, output } = await command([name], { ...ENV, WARM_FILE: file, ...env });
  expect(code).toBe(1);
  expect(output).not.toMatch(/K3y-that|0123456789abcdef/);
  return output.split("\n").filter((line) => line.includes(".yaml"));
}

describe("a warm list with mistakes is refused", () => {
  it("with a line for each wrong URL and its place", async () => {
    const file = fileWith(`urls:
  - url: /listings?areaId=76
  - url: /nowhere?callerId=test-caller&hash=0123456789abcdef&q=K3y-that-nobody-may-ever-see
  - url: /listings?limit=501
  - url: /areas?q=Nacka
    app: unheard-of
  - url: /listings?minRooms=many&maxRooms=few
`);
    const lines = await refusal(file);
    expect(lines).toEqual([
      expect.stringMatching(/list\.yaml:3: \/nowhere: answers of this URL are never cached/),
      expect.stringMatching(/list\.yaml:4: \/listings: limit: expected/),
      expect.stringMatching(/list\.yaml:5\b.*unheard-of is not an app in the settings/),
      expect.stringMatching(/list\.yaml:7\b.*minRooms: expected .*maxRooms: expected/),
    ]);
  });

  it("with a line for each wrong value", async () => {
    const file = fileWith(`urls:
  - url: /listings?areaId=76
    every: often
  - url: /listings?areaId=1
    evry: 5m
  - url: listings?areaId=2
  - every: 5m
  - url: /areas?q=Nacka
    format: xml
  - url: /areas?q=Solna
    every: 10ms
`);
    const lines = await refusal(file);
    expect(lines.map((line) => /list\.yaml:(\d+)/.exec(line)?.[1])).toEqual(
      expect.arrayContaining(["3", "5", "6", "7", "9", "11"]),
    );
    expect(lines).toHaveLength(6);
    expect(lines.join("\n")).toMatch(/urls\[0\]\.every: found "often"; expected a duration/);
    expect(lines.join("\n")).toMatch(/evry: unknown setting; did you mean .*every\?/);
  });

  it.each([
    ["cannot be read", undefined, /warm\.file: ".*missing\.yaml" cannot be read \(ENOENT\)/],
    ["is no YAML", "urls: @7", /list\.yaml:1: not valid YAML/],
    ["is no list", "urls: 7", /list\.yaml:1: urls: found 7; expected a list/],
    [
      "has other settings",
      "urls: []\nurl: /areas",
      /list\.yaml:2: url: unknown setting; did you mean urls\?/,
    ],
    ["is empty", "", /list\.yaml: urls: found nothing; expected a list of URLs/],
  ])("if its file %s", async (_name, text, expected) => {
    const file = text === undefined ? "/nowhere/missing.yaml" : fileWith(text);
    const said = await refusal(file);
    expect(said).toEqual([expect.stringMatching(expected)]);
  });
});

describe("a warm list beside mistakes in the settings", () => {
  it.each(["gateway", "config-check"] as const)("is told at once with them by %s", async (name) => {
    const settings = fileWith("apps: [{ id: web }]\nbudget: { limit: many }\n", "settings.yaml");
    const list = fileWith(
      `urls: [{ url: /nowhere }, { url: "${NACKA}", app: web }, { url: "${AREAS}", app: desk }]`,
    );
    expect(await refusal(list, { CONFIG_FILE: settings }, name)).toEqual([
      expect.stringMatching(/settings\.yaml:2: budget\.limit: found "many"/),
      expect.stringMatching(/list\.yaml:1: \/nowhere: answers of this URL are never cached/),
      expect.stringMatching(/list\.yaml:1: desk is not an app in the settings/),
    ]);
  });

  it.each([
    ["apps: 7", "urls: [{ url: /areas, app: web }]"],
    ["apps: [{ id: 'w e b' }]", "urls: [{ url: /areas, app: web }]"],
    ["upstream: { recordPath: 7 }", "urls: [{ url: /objects/listings/7 }]"],
    ["warm: { file: [] }", "urls: 7"],
    ["warm: [", "urls: [{ url: /areas, app: web }]"],
  ])("is not reported for mistakes that follow from %j", async (settings, list) => {
    // The list in its place by default: a variable would win over the mistake.
    const isInSettings = settings.startsWith("warm: {");
    const lines = await refusal(isInSettings ? "" : fileWith(list), {
      CONFIG_FILE: fileWith(settings, "settings.yaml"),
    });
    expect(lines).toEqual([expect.stringContaining("settings.yaml:1")]);
  });
});

describe("a correct warm list", () => {
  it("passes config-check without an upstream call", async () => {
    expect((await command(["config-check"], { ...ENV, WARM_FILE: fileWith(LIST) })).code).toBe(0);
  });
});
