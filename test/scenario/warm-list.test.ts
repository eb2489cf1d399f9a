/**
 * The list of what is kept warm: refused with all its mistakes, and read again with the settings.
 */
import { describe, expect, it } from "vitest";

import { ask, type Reply } from "../support/ask.ts";
import { fileWith } from "../support/files.ts";
import { gatewayEnv } from "../support/gateway.ts";
import { command } from "../support/command.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import {
  AGAIN_MS,
  AREAS,
  attended,
  BEGINS_MS,
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
    readonly reload: (settings: string) => Promise<Reply>;
  }

  async function startWith(settings: string): Promise<Reloaded> {
    let written = settings;
    const started = await startWarm("", { settings: () => written });
    return {
      ...started,
      async reload(next) {
        written = next;
        return await ask(`${started.gateway.adminUrl}/config/reload`, { method: "POST" });
      },
    };
  }

  it("is in force: new URLs are fetched, removed ones are not, and the others are unchanged", async () => {
    const { gateway, clock, reload } = await startWith(`warm: [{ url: "${NACKA}" }, { url: "${AREAS}" }]`);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    gateway.sandbox.clearRequests();
    const reply = await reload(`warm: [{ url: "${STOCKHOLM}", every: 2m }, { url: "${AREAS}" }]`);
    expect([reply.status, reply.json()]).toMatchObject([
      200,
      { applied: true, changes: [{ path: "warm", secret: "changed" }] },
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
    const { gateway, clock, reload } = await startWith("");
    await clock.advance(BEGINS_MS);
    expect((await reload(`warm: [{ url: "${NACKA}" }]`)).status).toBe(200);
    await clock.advance(BEGINS_MS);
    expect(await attended({ gateway, clock })).toMatchObject([{ last: "refreshed" }]);
    expect((await reload("warm: []")).status).toBe(200);
    expect(await warmStates(gateway)).toEqual([]);
    await clock.advance(AGAIN_MS);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it.each([
    ["a mistake in it", "apps: [{ id: web }]\nwarm: [{ url: /nowhere }]", /warm\[0\]: \/nowhere: answers of/],
    ["no list in it", "warm: 7", /test\.yaml:1: warm: found .*; expected a list of URLs/],
    [
      "an app that the settings do not know any more",
      `apps: []\nwarm: [{ url: "${NACKA}", app: web }]`,
      /web is not an app in the settings/,
    ],
  ])(
    "with %s is refused with all settings, and the old list stays in force",
    async (_name, settings, problem) => {
      const before = `apps: [{ id: web }]\nwarm: [{ url: "${NACKA}", app: web }]`;
      const { gateway, clock, reload } = await startWith(before);
      await clock.advance(BEGINS_MS);
      const states = await attended({ gateway, clock });
      const reply = await reload(`${settings}\ncache: { ttl: { areas: 1m } }`);
      expect([reply.status, problemCode(reply)]).toEqual([422, "invalid-settings"]);
      expect(Object(reply.json()).problems).toEqual([expect.stringMatching(problem)]);
      expect(await warmStates(gateway)).toEqual(states);
      expect(String((await gateway.get("/areas?q=a")).headers["cache-status"])).toMatch(/ttl=86400/);
    },
  );
});

describe("config-check", () => {
  const check = (settings: string) =>
    command(["config-check"], { ...gatewayEnv(), CONFIG_FILE: fileWith(settings) });

  it("accepts a correct warm list without an upstream call", async () => {
    expect((await check(LIST)).code).toBe(0);
  });

  it("has a line for each wrong URL, without its query", async () => {
    const { code, output } = await check(`warm:
  - url: /listings?areaId=76
  - url: /nowhere?callerId=test-caller&hash=0123456789abcdef&q=K3y-that-nobody-may-ever-see
  - url: /listings?limit=501
  - url: /areas?q=Nacka
    app: unheard-of
  - url: /listings?minRooms=many&maxRooms=few
`);
    expect(code).toBe(1);
    expect(output.trimEnd().split("\n")).toEqual([
      expect.stringMatching(/^warm\[1\]: \/nowhere: answers of this URL are never cached/),
      expect.stringMatching(/^warm\[2\]: \/listings: limit: expected/),
      expect.stringMatching(/^warm\[3\]: .*unheard-of is not an app in the settings/),
      expect.stringMatching(/^warm\[4\]: .*minRooms: expected .*maxRooms: expected/),
    ]);
    expect(output).not.toMatch(/K3y-that|0123456789abcdef/);
  });
});
