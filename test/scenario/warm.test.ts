/** What stories/warm.txt cannot tell: the reserve, restarts and replicas. */
import { describe, expect, it } from "vitest";

import { command } from "../support/command.ts";
import { cacheStatus } from "../support/ask.ts";
import {
  gatewayEnv,
  startGateway,
  startTwo,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { freePorts } from "../support/ports.ts";
import { redisForTest } from "../support/redis.ts";
import { type Anything, fileWith, temporaryDirectory } from "../support/files.ts";

/** The latest that a gateway begins after its start. */
const BEGINS_MS = 2_000;
/** Searches among listings are fresh for 300 s, and kept warm by a fetch after 270 s. */
const AGAIN_MS = 270_000;
const URLS = ["/listings?areaId=76&limit=5", "/listings?areaId=1&limit=5", "/areas?q=Nacka"] as const;
const LIST = `warm: ${JSON.stringify(URLS.map((url) => ({ url })))}`;

type Started = Awaited<ReturnType<typeof startWarm>>;

/** A gateway that keeps three answers warm, and has not begun to. */
async function startWarm(
  { settings = "", ...options }: TestGatewayOptions & { readonly settings?: string } = {},
  startAt = Date.now(),
) {
  const clock = createFakeClock(startAt);
  const gateway = await startGateway({
    clock,
    ...options,
    settings: `${settings}\n${LIST}`,
  });
  return { gateway, clock };
}

const warmStates = async ({ shows }: TestGateway): Promise<Anything[]> => (await shows("/cache/warm")).urls;

/** Lets the clock of a gateway move until none of its answers is due. */
async function attended({ gateway, clock }: Started): Promise<Anything[]> {
  let states: Anything[] = [];
  await expect
    .poll(async () => {
      await clock.advance(0);
      states = await warmStates(gateway);
      return states.filter(({ dueInSeconds }) => dueInSeconds <= 0);
    })
    .toEqual([]);
  return states;
}

/** What was asked of the upstream, oldest first. */
const targets = ({ requests }: TestGateway["sandbox"]): string[] =>
  requests().map(({ path, query }) => `${path}?${query}`);

it("a listed answer never uses the reserve, and is fetched as soon as another permit is free", async () => {
  const { gateway, clock } = await startWarm({
    env: { BUDGET: "10/1m" },
    // The clock moves while the answer is fetched.
    settings:
      "budget: { reserve: 0.8 }\nupstream: { connectTimeout: 1h, headerTimeout: 1h, totalTimeout: 1h }",
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
    // What waits for a place gets it, or gives up, only as time passes.
    const flights = (): Promise<number> => clock.advance(100).then(() => gateway.metric("gateway_flights"));
    await expect.poll(flights, { interval: 20 }).toBe(0);
  }
  expect(targets(gateway.sandbox)).toEqual(["/areas?q=Nacka"]);
  expect(clock.now() - startedAt).toBeGreaterThanOrEqual(59_000);
  expect(cacheStatus(await gateway.get(URLS[2]))).toMatchObject({ hit: true });
});

describe("an answer that was already fetched", () => {
  it("before a restart is not fetched until it is due", async () => {
    const env = { DATA_DIR: temporaryDirectory() };
    const [upstreamPort] = await freePorts(1);
    const options = { env, ...(upstreamPort !== undefined && { upstreamPort }) };
    const before = await startWarm(options);
    await before.clock.advance(BEGINS_MS);
    await attended(before);
    await before.gateway.stop();

    const soon = await startWarm(options, before.clock.now() + 100_000);
    await soon.clock.advance(BEGINS_MS);
    const states = await attended(soon);
    expect(states.map(({ last }) => last)).toEqual([null, null, null]);
    // The two seconds after the start included.
    expect(states.map(({ dueInSeconds }) => dueInSeconds)).toEqual([168, 168, expect.any(Number)]);
    expect(soon.gateway.sandbox.requests()).toEqual([]);
    expect(cacheStatus(await soon.gateway.get(URLS[0]))).toMatchObject({ hit: true });
    await soon.gateway.stop();

    const late = await startWarm(options, before.clock.now() + AGAIN_MS);
    await late.clock.advance(BEGINS_MS);
    await attended(late);
    expect(late.gateway.sandbox.requests().map(({ path }) => path)).toEqual(["/listings", "/listings"]);
  });

  it("in another replica is not fetched again", async () => {
    let list = "";
    // Before it has joined the shared budget, a gateway would be refused its fetches.
    const [first, second] = await startTwo({ redis: await redisForTest(), settings: () => list });
    list = LIST;
    for (const { reload } of [first, second]) expect((await reload()).status).toBe(200);
    for (const gateway of [first, second]) {
      await expect
        .poll(async () => (await warmStates(gateway)).filter(({ dueInSeconds }) => dueInSeconds <= 200))
        .toEqual([]);
    }
    expect(targets(first.sandbox).toSorted()).toEqual(
      URLS.toSorted().map((path) => expect.stringContaining(path)),
    );
    for (const gateway of [first, second]) {
      for (const path of URLS) expect(cacheStatus(await gateway.get(path))).toMatchObject({ hit: true });
    }
    expect(first.sandbox.requests()).toHaveLength(3);
  });
});

const check = (settings: string) =>
  command(["config-check"], { ...gatewayEnv(), CONFIG_FILE: fileWith(settings) });

it("config-check of a warm list has a line for each wrong URL, without its query", async () => {
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
    expect.stringMatching(/^warm\[1\]: \/nowhere: the path of this URL is unknown/),
    expect.stringMatching(/^warm\[2\]: \/listings: limit: expected/),
    expect.stringMatching(/^warm\[3\]: .*unheard-of is not an app in the settings/),
    expect.stringMatching(/^warm\[4\]: .*minRooms: expected .*maxRooms: expected/),
  ]);
  expect(output).not.toMatch(/K3y-that|0123456789abcdef/);
});
