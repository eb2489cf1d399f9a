/**
 * A gateway in this process, in front of a sandbox upstream, over real sockets on free ports.
 */
import diagnostics from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import { Server } from "node:net";

import { expect, onTestFinished } from "vitest";

import { createGateway } from "../../src/app.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { systemClock, type Clock } from "../../src/process/clock.ts";
import { openSettings } from "../../src/config/load.ts";
import { type Random, systemRandom } from "../../src/process/random.ts";
import { createSandbox, type Sandbox, type SandboxOptions } from "../../src/sandbox/sandbox.ts";
import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { withConstants } from "./constants.ts";
import { ask, type AskOptions, type Reply } from "./ask.ts";
import { type Counter, createCounter, settled } from "./fake-clock.ts";
import type { Anything } from "./files.ts";
import { portOf } from "./ports.ts";

/** The account that the sandbox accepts. The key occurs nowhere else, so tests can search for it. */
export const CALLER = {
  service: "propertyservice",
  callerId: "test-caller",
  privateKey: "K3y-that-nobody-may-ever-see",
} as const;

/**
 * The environment of a gateway that listens on free ports, signs as `CALLER` and has no data directory.
 * @param upstreamUrl of both origins; by default an address where nothing listens
 */
export function gatewayEnv(upstreamUrl = "http://127.0.0.1:9"): Record<string, string> {
  return {
    HOST: "127.0.0.1",
    PORT: "0",
    ADMIN_PORT: "0",
    UPSTREAM_URL: upstreamUrl,
    UPSTREAM_IMAGE_URL: upstreamUrl,
    UPSTREAM_SERVICE: CALLER.service,
    UPSTREAM_CALLER_ID: CALLER.callerId,
    UPSTREAM_PRIVATE_KEY: CALLER.privateKey,
    UPSTREAM_USER_AGENT: "test/1.0",
    UPSTREAM_REFERRER: "https://www.agency.test/",
    DATA_DIR: "",
    STOP_DELAY: "0s",
    // Most tests say how long an answer is fresh.
    CACHE_LIFETIMES: "fixed",
  };
}

/** For tests about single pages of a search. By default, the gateway cuts pages from blocks. */
export const EXACT_PAGES = { PAGES_FOLD: "off" } as const;

const SMALL_DATA = generateData({ seed: 1, listings: 1500, sold: 1500, service: CALLER.service });

/** A listing that the sandbox has. */
export const LISTING_ID = String([...SMALL_DATA.listingById.keys()][0]);

export type TestGateway = Awaited<ReturnType<typeof startGateway>>;

export interface TestGatewayOptions {
  /** Environment variables over those of the test. */
  readonly env?: Readonly<Record<string, string>>;
  /** A settings file's text; where it is a function, what it says when the file is read. */
  readonly settings?: string | (() => string);
  readonly sandbox?: Partial<SandboxOptions>;
  readonly random?: Partial<Random>;
  /** The sandbox uses the same clock. */
  readonly clock?: Clock;
  /** The port of the sandbox; any free one by default. A restart keeps its answers only if the address is the same. */
  readonly upstreamPort?: number;
  /** The Redis that it shares with others. A busy machine may delay it, so it has time. */
  readonly redis?: { readonly port: number };
  /** A gateway whose upstream this one has, too. */
  readonly beside?: { readonly sandbox: Sandbox; readonly sandboxUrl: string };
}

/** What a test asks of a running gateway, in this process or in one of its own. */
export function clientOf({ url, adminUrl }: { readonly url: string; readonly adminUrl: string }) {
  /** Asks the admin port: GET, or POST if there is a body. */
  const admin = (path: string, body?: string): Promise<Reply> =>
    body === undefined ? ask(adminUrl + path) : ask(adminUrl + path, { method: "POST", body });
  /** What the admin port shows, parsed. */
  const shows = async (path: string) => Object((await admin(path)).json());
  /** One series of the metrics by name and labels, as in `gateway_x_total{app="a"}`; 0 where absent. */
  const metric = async (series: string): Promise<number> => valueOf(series, (await admin("/metrics")).text);
  return {
    /** Callers' address. */
    url,
    adminUrl,
    adminPort: Number(new URL(adminUrl).port),
    /** Asks the gateway. */
    get: (path: string, askOptions?: AskOptions): Promise<Reply> => ask(url + path, askOptions),
    admin,
    shows,
    metric,
    /** The state of the budget of the API. */
    budget: async () => (await shows("/budget")).api,
    /** What is known about the answer of a URL. */
    entryAt: (path: string) => shows(`/cache/entry?url=${encodeURIComponent(path)}`),
    reload: (): Promise<Reply> => admin("/config/reload", ""),
    /** Resolves when no call is under way, and every answer is stored. */
    landed: (): Promise<void> => expect.poll(() => metric("gateway_flights"), { interval: 5 }).toBe(0),
  };
}

/** A busy machine may delay Redis. No gateway may go on without it because of that. */
const PATIENT = "redis: { timeout: 10s }\n";

/** Starts sandbox and gateway; both stop when the test ends. The budget is ample unless a test sets it. */
export async function startGateway(options: TestGatewayOptions = {}) {
  const { beside, redis } = options;
  const clock = options.clock ?? systemClock;
  const sandbox =
    beside?.sandbox ?? createSandbox({ ...CALLER, data: SMALL_DATA, now: clock.now, ...options.sandbox });
  const sandboxUrl = beside?.sandboxUrl ?? (await sandbox.listen(options.upstreamPort)).url;
  const source = openSettings({
    constants: withConstants(settingsText(options)).constants,
    env: {
      ...gatewayEnv(sandboxUrl),
      UPSTREAM_USER_AGENT: "property-gateway-test/1.0 (ops@agency.test)",
      BUDGET: "1000000/1m",
      BUDGET_SPACING: "0s",
      CONFIG_FILE: "test.yaml",
      ...(redis && { REDIS_URL: `redis://127.0.0.1:${redis.port}` }),
      ...options.env,
    },
    readFile: (path) =>
      path === "test.yaml" ? withConstants(settingsText(options)).settings : readFileSync(path, "utf8"),
  });
  const { log, write, logged } = createLogKeeper();
  const logger = createLogger({
    level: source.first.config.log.level,
    secrets: source.keys.known,
    destination: { write },
  });
  const random = { ...systemRandom, ...options.random };
  const gateway = createGateway({ source, clock, random, log: logger });
  const { callers, admin } = await gateway.start();

  const client = clientOf({ url: callers.url, adminUrl: admin.url });
  const arrivals = countArrivals();
  let sent = 0;
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (stopped ??= (beside ? Promise.resolve() : sandbox.close()).then(() => gateway.stop()));
  onTestFinished(stop);
  return {
    ...client,
    port: callers.port,
    sandbox,
    sandboxUrl,
    log,
    logged,
    get: (...request: Parameters<typeof client.get>): Promise<Reply> => {
      sent++;
      return client.get(...request);
    },
    /** Resolves when every request of `get` so far has arrived, and is answered from memory or waits. */
    admitted: async (): Promise<void> => {
      await arrivals.reached(callers.port, sent);
      await settled();
    },
    stop,
  };
}

/** Resolves when the gateways have joined those that share the budget. */
export async function expectShared(...gateways: readonly Pick<TestGateway, "budget">[]): Promise<void> {
  for (const { budget } of gateways) await expect.poll(async () => (await budget()).mode).toBe("shared");
}

type SharedOptions = TestGatewayOptions & Required<Pick<TestGatewayOptions, "redis">>;

/** Starts a gateway that has joined those on its Redis. */
export async function startShared(options: SharedOptions): Promise<TestGateway> {
  const gateway = await startGateway(options);
  await expectShared(gateway);
  return gateway;
}

/** Two gateways on one Redis, in front of one upstream. */
export async function startTwo(options: SharedOptions): Promise<readonly [TestGateway, TestGateway]> {
  const env = { REPLICAS: "2", ...options.env };
  const first = await startGateway({ ...options, env });
  const second = await startGateway({ ...options, env, beside: first });
  await expectShared(first, second);
  return [first, second];
}

/** The text of the settings file. */
export function settingsText({ settings = "", redis }: TestGatewayOptions): string {
  const text = typeof settings === "string" ? settings : settings();
  return redis === undefined || /^redis:/m.test(text) ? text : PATIENT + text;
}

/** Counts the requests that arrive at each port of this process, until the test ends. */
function countArrivals(): Counter {
  const counter = createCounter();
  const onRequest = (message: unknown): void => {
    const server: unknown = Reflect.get(Object(message), "server");
    if (server instanceof Server && server.listening) counter.add(portOf(server));
  };
  diagnostics.subscribe("http.server.request.start", onRequest);
  onTestFinished(() => void diagnostics.unsubscribe("http.server.request.start", onRequest));
  return counter;
}

/** Keeps the lines of a log, and resolves the promises of tests that wait for one. */
function createLogKeeper() {
  /** Every line logged so far. */
  const log: string[] = [];
  let changed = Promise.withResolvers<void>();
  return {
    log,
    write: (line: string): void => {
      log.push(line);
      changed.resolve();
      changed = Promise.withResolvers();
    },
    /** Resolves with a line, written or still to come, that has these texts in it. */
    logged: async (...texts: string[]): Promise<Anything> => {
      for (let at = 0; ; at++) {
        while (at >= log.length) await changed.promise;
        const line = log[at] ?? "";
        if (texts.every((text) => line.includes(text))) return JSON.parse(line);
      }
    },
  };
}

function valueOf(series: string, exposition: string): number {
  const line = exposition.split("\n").find((candidate) => candidate.startsWith(`${series} `));
  return line === undefined ? 0 : Number(line.slice(series.length + 1));
}
