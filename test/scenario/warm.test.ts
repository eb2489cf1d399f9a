/**
 * Answers that are kept warm: fetched before anybody asks, and again before they expire.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { ask, type Reply } from "../support/ask.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { run } from "../support/process.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { startRedis } from "../support/redis.ts";
import { temporaryDirectory } from "../support/sqlite.ts";

/** The latest that a gateway begins after its start. */
const BEGINS_MS = 2_000;
/** Searches among listings are fresh for 300 s, and kept warm by a fetch after 270 s. */
const AGAIN_MS = 270_000;
const [NACKA, STOCKHOLM, AREAS] = [
  "/listings?areaId=76&limit=5",
  "/listings?areaId=1&limit=5",
  "/areas?q=Nacka",
];
const LIST = `urls: [{ url: "${NACKA}" }, { url: "${STOCKHOLM}" }, { url: "${AREAS}" }]`;

/** A file with this text. */
function fileWith(text: string, name = "list.yaml"): string {
  const path = join(temporaryDirectory(), name);
  writeFileSync(path, text);
  return path;
}

interface Started {
  readonly gateway: TestGateway;
  readonly clock: FakeClock;
}

/** A gateway that keeps a list warm, and has not begun to. */
async function start(list: string, options: TestGatewayOptions = {}, startAt = Date.now()): Promise<Started> {
  const clock = createFakeClock(startAt);
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    ...options,
    env: { WARM_FILE: fileWith(list), ...options.env },
  });
  return { gateway, clock };
}

interface WarmState {
  readonly query: string;
  readonly dueInSeconds: number;
  readonly last: string | null;
}

async function warmStates({ adminUrl }: Pick<TestGateway, "adminUrl">): Promise<WarmState[]> {
  const shown: { readonly urls: WarmState[] } = JSON.parse((await ask(`${adminUrl}/cache/warm`)).text);
  return shown.urls;
}

/** Lets a gateway go on until none of its answers is due. */
async function attended({ gateway, clock }: Started): Promise<WarmState[]> {
  let states: WarmState[] = [];
  await expect
    .poll(async () => {
      await clock.advance(0);
      states = await warmStates(gateway);
      return states.filter(({ dueInSeconds }) => dueInSeconds <= 0);
    })
    .toEqual([]);
  return states;
}

const targets = ({ sandbox }: TestGateway): string[] =>
  sandbox.requests().map(({ path, query }) => `${path}?${query}`);

describe("what is listed", () => {
  it("is fetched before anybody asks: the first caller's is a hit", async () => {
    const { gateway, clock } = await start(LIST);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    expect(gateway.sandbox.counts().byResource).toMatchObject({ listings: 2, areas: 1 });
    for (const path of [NACKA, STOCKHOLM, AREAS]) {
      const reply = await gateway.get(path);
      expect([path, reply.status, cacheStatus(reply)]).toEqual([
        path,
        200,
        expect.objectContaining({ hit: true, detail: "memory" }),
      ]);
    }
    expect(gateway.sandbox.requests()).toHaveLength(3);
  });

  it("is fetched again before it expires, so that callers never get a stale one", async () => {
    const { gateway, clock } = await start(`urls: [{ url: "${NACKA}" }]`);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    for (const round of [1, 2, 3]) {
      await clock.advance(AGAIN_MS - 1);
      expect(await warmStates(gateway)).toMatchObject([{ dueInSeconds: 1, last: "refreshed" }]);
      expect(gateway.sandbox.requests()).toHaveLength(round);
      gateway.sandbox.revise();
      await clock.advance(1);
      await gateway.sandbox.waitForRequests(round + 1);
      expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: 270 }]);
      expect(cacheStatus(await gateway.get(NACKA))).toMatchObject({
        hit: true,
        ttl: "300",
        detail: "memory",
      });
    }
    expect(await gateway.metric('gateway_refreshes_total{resource="listings",change="changed"}')).toBe(3);
    expect(await gateway.metric('gateway_warm_fetches_total{resource="listings",result="refreshed"}')).toBe(
      4,
    );
  });

  it.each([
    ["more often than it expires", "2m", 120],
    ["less often than it expires", "10m", 600],
  ])("is fetched as often as the list says: %s", async (_name, every, seconds) => {
    const { gateway, clock } = await start(`urls: [{ url: "${NACKA}", every: ${every} }]`);
    await clock.advance(BEGINS_MS);
    expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: seconds }]);
    await clock.advance(seconds * 1_000 - 1);
    expect(await warmStates(gateway)).toMatchObject([{ dueInSeconds: 1 }]);
    expect(gateway.sandbox.requests()).toHaveLength(1);
    await clock.advance(1);
    await gateway.sandbox.waitForRequests(2);
    expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: seconds }]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("is fetched one after the other, beside what callers ask", async () => {
    const list = `urls: [{ url: "${NACKA}" }, { url: "${STOCKHOLM}" }, { url: "/listings?areaId=2&limit=5" }]`;
    const { gateway, clock } = await start(list);
    gateway.sandbox.hold("/listings");
    await clock.advance(BEGINS_MS);
    for (const nth of [1, 2, 3]) {
      await expect.poll(() => clock.advance(0).then(gateway.sandbox.waiting)).toBe(1);
      expect((await gateway.get(`/areas?q=caller-${nth}`)).status).toBe(200);
      expect(gateway.sandbox.counts().byResource).toMatchObject({ listings: nth });
      gateway.sandbox.release(1);
    }
    await attended({ gateway, clock });
  });

  it("is charged as such, to the app that the list names", async () => {
    const list = `urls: [{ url: "${NACKA}", app: web }, { url: "${STOCKHOLM}" }]`;
    const { gateway, clock } = await start(list, { settings: "apps: [{ id: web }]" });
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    const spent = (app: string, cause: string): Promise<number> =>
      gateway.metric(`gateway_budget_spent_total{app="${app}",cause="${cause}"}`);
    expect([await spent("web", "warm"), await spent("other", "warm")]).toEqual([1, 1]);
    expect([await spent("web", "miss"), await spent("other", "miss")]).toEqual([0, 0]);
  });

  it("is fetched in the format that the list names", async () => {
    const { gateway, clock } = await start(`urls: [{ url: "${NACKA}", format: v2 }]`);
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    const accept = "application/vnd.propertyservice-v2+json";
    expect(gateway.sandbox.requests()).toMatchObject([{ accept }]);
    expect(cacheStatus(await gateway.get(NACKA, { headers: { accept } }))).toMatchObject({ hit: true });
    expect(cacheStatus(await gateway.get(NACKA))).toMatchObject({ fwd: "miss" });
  });

  it("never costs a place of the reserve, and is fetched as soon as there is another", async () => {
    const { gateway, clock } = await start(LIST, {
      env: { BUDGET: "10/1m" },
      settings: "budget: { reserve: 0.8 }",
    });
    await clock.advance(BEGINS_MS);
    const states = await attended({ gateway, clock });
    expect(states.map(({ last }) => last)).toEqual(["refreshed", "refreshed", "refused"]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
    expect(await gateway.metric('gateway_warm_fetches_total{resource="areas",result="refused"}')).toBe(1);
    for (let caller = 0; caller < 8; caller++)
      expect((await gateway.get(`/areas?q=caller-${caller}`)).status).toBe(200);
    gateway.sandbox.clearRequests();
    const startedAt = clock.now();
    while (gateway.sandbox.requests().length === 0 && clock.now() < startedAt + 120_000) {
      await clock.advance(1_000);
      await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    }
    expect(targets(gateway)).toEqual(["/areas?q=Nacka"]);
    expect(clock.now() - startedAt).toBeGreaterThanOrEqual(59_000);
    expect(cacheStatus(await gateway.get(AREAS))).toMatchObject({ hit: true });
  });

  it("that fails is tried again after a while, and the others are fetched meanwhile", async () => {
    const { gateway, clock } = await start(LIST, { settings: "upstream: { retryDelay: 0ms }" });
    gateway.sandbox.faults.add({ wrongJson: true, pathPrefix: "/areas" });
    await clock.advance(BEGINS_MS);
    const states = await attended({ gateway, clock });
    expect(states.map(({ last }) => last)).toEqual(["refreshed", "refreshed", "failed"]);
    const dueInSeconds = states.at(-1)?.dueInSeconds ?? 0;
    expect([dueInSeconds >= 30, dueInSeconds <= 90]).toEqual([true, true]);
    gateway.sandbox.faults.clear();
    await clock.advance(dueInSeconds * 1_000);
    await expect.poll(() => warmStates(gateway)).toMatchObject([{}, {}, { last: "refreshed" }]);
    expect(cacheStatus(await gateway.get(AREAS))).toMatchObject({ hit: true });
  });

  it("is fetched later where a caller has had it renewed meanwhile", async () => {
    const { gateway, clock } = await start(`urls: [{ url: "${NACKA}" }]`, {
      settings: "apps: [{ id: desk, mayForceRefresh: true }]",
    });
    await clock.advance(BEGINS_MS);
    await attended({ gateway, clock });
    await clock.advance(200_000);
    await gateway.get(NACKA, { headers: { "cache-control": "no-cache", "x-app-id": "desk" } });
    expect(gateway.sandbox.requests()).toHaveLength(2);
    await clock.advance(AGAIN_MS - 200_000);
    expect(await attended({ gateway, clock })).toMatchObject([{ dueInSeconds: 200 }]);
    expect(gateway.sandbox.requests()).toHaveLength(2);
    await clock.advance(200_000);
    await gateway.sandbox.waitForRequests(3);
    await attended({ gateway, clock });
  });
});

describe("what another has fetched already", () => {
  it("before a restart is not fetched until it is due", async () => {
    const env = { DATA_DIR: temporaryDirectory() };
    const before = await start(LIST, { env });
    await before.clock.advance(BEGINS_MS);
    await attended(before);
    await before.gateway.stop();

    const soon = await start(LIST, { env }, before.clock.now() + 100_000);
    await soon.clock.advance(BEGINS_MS);
    const states = await attended(soon);
    expect(states.map(({ last }) => last)).toEqual([null, null, null]);
    // The two seconds after the start included.
    expect(states.map(({ dueInSeconds }) => dueInSeconds)).toEqual([168, 168, expect.any(Number)]);
    expect(soon.gateway.sandbox.requests()).toEqual([]);
    expect(cacheStatus(await soon.gateway.get(NACKA))).toMatchObject({ hit: true });
    await soon.gateway.stop();

    const late = await start(LIST, { env }, before.clock.now() + AGAIN_MS);
    await late.clock.advance(BEGINS_MS);
    await attended(late);
    expect(late.gateway.sandbox.requests().map(({ path }) => path)).toEqual(["/listings", "/listings"]);
  });

  it("in another replica is not fetched again", async () => {
    const redis = await startRedis();
    onTestFinished(redis.close);
    const env = { REDIS_URL: `redis://127.0.0.1:${redis.port}`, REPLICAS: "2", WARM_FILE: fileWith(LIST) };
    const first = await startGateway({ env });
    const second = await startGateway({
      env: { ...env, UPSTREAM_URL: first.sandboxUrl, UPSTREAM_IMAGE_URL: first.sandboxUrl },
    });
    for (const gateway of [first, second]) {
      await expect
        .poll(async () => (await warmStates(gateway)).filter(({ dueInSeconds }) => dueInSeconds <= 200))
        .toEqual([]);
    }
    expect(targets(first).toSorted()).toEqual(
      [AREAS, STOCKHOLM, NACKA].map((path) => expect.stringContaining(path)),
    );
    for (const gateway of [first, second]) {
      for (const path of [NACKA, STOCKHOLM, AREAS])
        expect(cacheStatus(await gateway.get(path))).toMatchObject({ hit: true });
    }
    expect(first.sandbox.requests()).toHaveLength(3);
  });
});

describe("a list that is read again", () => {
  interface Reloaded extends Started {
    /** Writes the list anew, and has the settings read again. */
    readonly reload: (list: string, settings?: string) => Promise<Reply>;
  }

  async function startWith(list: string, settings = ""): Promise<Reloaded> {
    const WARM_FILE = fileWith(list);
    let written = settings;
    const started = await start(list, { settings: () => written, env: { WARM_FILE } });
    return {
      ...started,
      async reload(next, nextSettings = settings) {
        writeFileSync(WARM_FILE, next);
        written = nextSettings;
        return await ask(`${started.gateway.adminUrl}/config/reload`, { method: "POST" });
      },
    };
  }

  it("is in force: what is new is fetched, what is gone no more, and the rest goes on as before", async () => {
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

  it("may be none, and some again", async () => {
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
    ["a mistake in it", "urls: [{ url: /nowhere }]", "", [/list\.yaml:1: \/nowhere: nothing at this URL/]],
    ["no list in it", "urls: 7", "", [/list\.yaml:1: urls: found 7; expected a list/]],
    [
      "one in the settings besides",
      "urls: [{ url: /nowhere }]",
      "log: { level: 7 }",
      [/log\.level/, /\/nowhere: nothing at this URL/],
    ],
    [
      "an app that the settings do not know any more",
      `urls: [{ url: "${NACKA}", app: web }]`,
      "apps: []",
      [/web is no app of the settings/],
    ],
  ])(
    "with %s is refused with all settings, and the old one stays",
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

describe("operators", () => {
  it("see how each answer stands", async () => {
    const list = `urls: [{ url: "/listings/?limit=5&areaId=76", app: web, every: 2m }, { url: "${AREAS}" }]`;
    const { gateway, clock } = await start(list, { settings: "apps: [{ id: web }]" });
    const [first, second] = [
      { query: "listings?areaId=76&limit=5&offset=0", format: "json", app: "web", everySeconds: 120 },
      { query: expect.stringMatching(/^areas\?q=Nacka/), format: "json", app: "other", everySeconds: null },
    ];
    expect(await warmStates(gateway)).toEqual([
      { ...first, dueInSeconds: 0, last: null },
      { ...second, dueInSeconds: 0, last: null },
    ]);
    await clock.advance(BEGINS_MS);
    expect(await attended({ gateway, clock })).toEqual([
      { ...first, dueInSeconds: 120, last: "refreshed" },
      { ...second, dueInSeconds: 86_400 * 0.9, last: "refreshed" },
    ]);
  });

  it("see which format is kept warm", async () => {
    const list = `urls: [{ url: "${NACKA}" }, { url: "${NACKA}", format: v2 }, { url: "/cache/primary_1_10x10.jpg" }]`;
    const { gateway } = await start(list);
    expect(await warmStates(gateway)).toMatchObject([
      { query: "listings?areaId=76&limit=5&offset=0", format: "json" },
      { query: "listings?areaId=76&limit=5&offset=0", format: "v2" },
      { format: "jpeg" },
    ]);
  });

  it("see none where none is listed", async () => {
    const gateway = await startGateway();
    expect(await warmStates(gateway)).toEqual([]);
  });
});

const ENV = {
  HOST: "127.0.0.1",
  PORT: "0",
  ADMIN_PORT: "0",
  UPSTREAM_URL: "http://127.0.0.1:9",
  UPSTREAM_IMAGE_URL: "http://127.0.0.1:9",
  UPSTREAM_SERVICE: "propertyservice",
  UPSTREAM_CALLER_ID: "test-caller",
  UPSTREAM_PRIVATE_KEY: "K3y-that-nobody-may-ever-see",
  UPSTREAM_USER_AGENT: "test/1.0",
  UPSTREAM_REFERRER: "https://www.example.com/",
  DATA_DIR: "",
};

/** What a command says of a list before it ends with 1, a line for each mistake. */
async function refusal(
  command: "gateway" | "config-check",
  file: string,
  env: Record<string, string> = {},
): Promise<string[]> {
  const process = run([command], { ...ENV, WARM_FILE: file, ...env });
  expect(await process.ended).toBe(1);
  expect(process.output()).not.toMatch(/K3y-that|0123456789abcdef/);
  return process
    .output()
    .split("\n")
    .filter((line) => line.includes(".yaml"));
}

describe.each(["gateway", "config-check"] as const)("a list with mistakes is refused by %s", (command) => {
  it("with a line for each URL that puts no question, and where it stands", async () => {
    const file = fileWith(`urls:
  - url: /listings?areaId=76
  - url: /nowhere?callerId=test-caller&hash=0123456789abcdef&q=K3y-that-nobody-may-ever-see
  - url: /listings?limit=501
  - url: /areas?q=Nacka
    app: unheard-of
  - url: /listings?minRooms=many&maxRooms=few
`);
    const lines = await refusal(command, file);
    expect(lines).toEqual([
      expect.stringMatching(/list\.yaml:3: \/nowhere: nothing at this URL is ever kept/),
      expect.stringMatching(/list\.yaml:4: \/listings: limit: expected/),
      expect.stringMatching(/list\.yaml:5\b.*unheard-of is no app of the settings/),
      expect.stringMatching(/list\.yaml:7\b.*minRooms: expected .*maxRooms: expected/),
    ]);
  });

  it("with a line for each value that is none", async () => {
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
    const lines = await refusal(command, file);
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
  ])("where its file %s", async (_name, text, expected) => {
    const file = text === undefined ? "/nowhere/missing.yaml" : fileWith(text);
    const said = await refusal(command, file);
    expect(said).toEqual([expect.stringMatching(expected)]);
  });
});

describe.each(["gateway", "config-check"] as const)("with mistakes in the settings too, %s", (command) => {
  it("tells all at once", async () => {
    const settings = fileWith("apps: [{ id: web }]\nbudget: { limit: many }\n", "settings.yaml");
    const list = fileWith(
      `urls: [{ url: /nowhere }, { url: "${NACKA}", app: web }, { url: "${AREAS}", app: desk }]`,
    );
    expect(await refusal(command, list, { CONFIG_FILE: settings })).toEqual([
      expect.stringMatching(/settings\.yaml:2: budget\.limit: found "many"/),
      expect.stringMatching(/list\.yaml:1: \/nowhere: nothing at this URL is ever kept/),
      expect.stringMatching(/list\.yaml:1: desk is no app of the settings/),
    ]);
  });

  it.each([
    ["apps: 7", "urls: [{ url: /areas, app: web }]"],
    ["apps: [{ id: 'w e b' }]", "urls: [{ url: /areas, app: web }]"],
    ["upstream: { recordPath: 7 }", "urls: [{ url: /objects/listings/7 }]"],
    ["warm: { file: [] }", "urls: 7"],
    ["warm: [", "urls: [{ url: /areas, app: web }]"],
  ])("does not blame the list for what %j leaves open", async (settings, list) => {
    // The list in its place by default: a variable would win over the mistake.
    const isInSettings = settings.startsWith("warm: {");
    const lines = await refusal(command, isInSettings ? "" : fileWith(list), {
      CONFIG_FILE: fileWith(settings, "settings.yaml"),
    });
    expect(lines).toEqual([expect.stringContaining("settings.yaml:1")]);
  });
});

describe("a list without mistakes", () => {
  it("is passed by the check of the settings, and costs nothing", async () => {
    const check = run(["config-check"], { ...ENV, WARM_FILE: fileWith(LIST) });
    expect(await check.ended).toBe(0);
  });
});
