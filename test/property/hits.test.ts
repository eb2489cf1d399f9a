/**
 * A hit is answered before Express' router, from what is ready in memory. These tests compare each such response with the
 * one that the ordinary way through all stages gives.
 */
import { once } from "node:events";
import http from "node:http";

import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type Answer, Cache } from "../../src/cache/cache.ts";
import { createEncoder, isCompressible } from "../../src/cache/encoder.ts";
import { createChecks } from "../../src/cache/lifetimes/checks.ts";
import { Failures } from "../../src/cache/recent-failures.ts";
import { createLifetimes } from "../../src/cache/lifetimes/learned-lifetimes.ts";
import { createMemoryStore } from "../../src/cache/store/memory.ts";
import { Tiers } from "../../src/cache/store/tiered.ts";
import { Problem } from "../../src/errors.ts";
import { createCallersApp } from "../../src/http/callers-routes.ts";
import { createCors } from "../../src/http/cors.ts";
import { createHttpServer } from "../../src/http/edge/http-server.ts";
import { mediaTypeOf } from "../../src/interface/media-types.ts";
import { createKnownTargets } from "../../src/query/known-targets.ts";
import { addressesOf } from "../../src/query/route.ts";
import type { Entry } from "../../src/cache/entry.ts";
import type { RequestRecord } from "../../src/telemetry/events.ts";
import { entryWith, keyOf } from "../support/entries.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { each, rulesWith } from "../support/rules.ts";
import { SILENT } from "../support/silent-observer.ts";
import { PARSE } from "../support/understood.ts";

const SERVICE = "propertyservice";
const clock = createFakeClock();
const RULES = rulesWith({ staleWhileRevalidateMs: each(20_000) });

/** @param isPlain nothing is remembered, and every answer takes the ordinary way through the stages */
async function startGateway(isPlain: boolean) {
  const tiers = new Tiers(createMemoryStore(10_000_000, clock), undefined, clock);
  const records: RequestRecord[] = [];
  const refreshed: string[] = [];
  let logged = (): void => undefined;
  const observer = {
    request(record: RequestRecord) {
      records.push(record);
      logged();
    },
    error: (message: string) => expect.unreachable(message),
  };
  const { answer: cache, answerAtOnce } = new Cache({
    tiers,
    load: () => Promise.reject(new Problem("upstream-unreachable")),
    refresh: async ({ key }) => {
      refreshed.push(key);
      return "refreshed";
    },
    failures: new Failures(),
    checks: createChecks(
      () => 0,
      () => undefined,
    ),
    lifetimes: createLifetimes(() => "fixed"),
    isCoolingOff: () => false,
    rules: () => RULES,
    clock,
  });
  const encode = createEncoder(tiers.keepInMemory);
  const knownTargets = createKnownTargets(1_000_000);
  const app = createCallersApp({
    clock: { ...clock, precise: () => 0 },
    random: { requestId: () => "request-1" },
    observer: { ...SILENT, ...observer },
    identify: {
      appOf: () => "web",
      rightsOf: (app) => ({ priority: "interactive", mayForceRefresh: app === "web" }),
    },
    cors: () => createCors({ corsOrigins: [], appIdHeader: "x-app-id" }),
    headLimits: LIMITS,
    addresses: addressesOf({ recordPath: "/{resource}/{serviceId}", passThrough: [] }),
    documents: new Map(),
    service: SERVICE,
    maxWaitMs: () => 10_000,
    parse: PARSE,
    knownTargets: isPlain ? { find: () => undefined, remember: () => undefined } : knownTargets,
    cache: isPlain ? async (question) => withoutHeads(await cache(question)) : cache,
    answerAtOnce: isPlain ? () => undefined : answerAtOnce,
    passThrough: () => Promise.reject(new Problem("upstream-unreachable")),
    // If the body is a copy, the gateway makes a new head for it.
    encode: async (...given) => {
      const { body, coding } = await encode(...given);
      return { body: isPlain ? Buffer.from(body) : body, coding };
    },
    isCompressible,
    budgets: { api: BUDGET, images: BUDGET },
  });
  const server = createHttpServer({
    serve: app.serve,
    ignoreContent: true,
    limits: LIMITS,
    random: { requestId: () => "request-1" },
    clock: { ...clock, after: () => () => undefined },
    observer: { ...SILENT, warn: (message) => expect.unreachable(message) },
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const agent = new http.Agent({ keepAlive: true });
  return {
    tiers,
    records,
    /** Sends a request; resolves when it is logged and its response is complete. */
    async ask({ method, target, headers }: Asked) {
      const { promise, resolve } = Promise.withResolvers<void>();
      logged = resolve;
      const request = http.request({ agent, port, host: "127.0.0.1", method, path: target, headers }).end();
      const [response]: http.IncomingMessage[] = await once(request, "response");
      if (response === undefined) throw new Error("no response");
      const body = Buffer.concat(await response.toArray());
      await promise;
      const head = Object.entries(response.headers).filter(([name]) => name !== "date");
      return {
        status: response.statusCode,
        head: head.toSorted(([a], [b]) => (a < b ? -1 : 1)),
        body: body.toString("latin1"),
        record: records.at(-1),
        refreshed: refreshed.length,
      };
    },
    close() {
      agent.destroy();
      server.close();
    },
  };
}

const BUDGET = {
  shareOf: (app: string) =>
    app === "web" ? [{ name: "1m", limit: 30, windowSeconds: 60, remaining: 12, resetSeconds: 7 }] : [],
  retryAfterSeconds: () => undefined,
};

/** @returns the answer with a copy of its entry, which has no heads ready */
function withoutHeads(answer: Answer): Answer {
  const { entry } = answer;
  return { ...answer, entry: { ...entryWith(""), ...Object.fromEntries(Object.entries(entry)) } };
}

const LIMITS = {
  maxUrlBytes: 2_000,
  maxHeaderBytes: 4_000,
  maxHeaders: 20,
  maxConnections: 100,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  keepAliveTimeoutMs: 10_000,
  writeTimeoutMs: 10_000,
};

interface Asked {
  readonly method: string;
  readonly target: string;
  readonly headers: Record<string, string>;
}

const LAST_MODIFIED = "Thu, 15 Jan 2026 11:00:00 GMT";
const TAG = entryWith("x").etag;

/** @returns one of the values, but mostly no such header at all: else most requests would be refused */
const maybe = (...values: string[]): fc.Arbitrary<string | undefined> =>
  fc.oneof(
    { weight: 5, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constantFrom(...values) },
  );

const V2 = mediaTypeOf("v2", SERVICE);

const headers = fc
  .record({
    accept: fc.constantFrom("*/*", "*/*", "application/json; q=0.5, text/html", "text/html", V2),
    "accept-encoding": fc.constantFrom("gzip", "br", "gzip, br;q=0.1", "zstd", "identity", "*;q=0"),
    "cache-control": maybe(
      "no-cache",
      "no-store",
      "only-if-cached",
      "max-age=5",
      "min-fresh=30",
      "max-stale",
      "max-stale=100, stale-if-error=1",
    ),
    pragma: maybe("no-cache"),
    "if-none-match": maybe(`"${TAG}"`, `W/"${TAG}-gzip"`, `"${TAG},`, `"x", "${TAG}-br"`, '"other"', "*", ""),
    "if-modified-since": maybe(LAST_MODIFIED, "Thu, 15 Jan 2026 10:00:00 GMT", "yesterday"),
    "x-request-id": maybe("mine", "not usable!"),
    "x-app-id": maybe("web", "unknown"),
    "x-request-deadline-ms": maybe("500", "soon"),
    prefer: maybe("wait=2"),
    expect: maybe("nothing"),
    "content-length": maybe("0"),
    connection: maybe("close", "keep-alive"),
  })
  .map((all): Record<string, string> => {
    const given = Object.entries(all).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    );
    return Object.fromEntries(given);
  });

const asked: fc.Arbitrary<Asked> = fc.record({
  method: fc.constantFrom("GET", "GET", "GET", "HEAD", "POST"),
  target: fc.constantFrom(
    "/listings",
    "/listings?offset=0",
    "/listings/?&offset=0&_=7",
    "http://gateway.example/listings",
    "/listings?limit=5",
    "/listings?limit=none",
    "/listings?token=abc123def456&offset=0",
    "/nowhere",
    "/listings?x=%ZZ",
  ),
  headers,
});

const entry = fc
  .record({
    body: fc.constantFrom("x", "", "y".repeat(3_000)),
    status: fc.constantFrom<Entry["status"]>(200, 200, 200, 400, 404),
    contentType: fc.constantFrom("application/json", "image/jpeg"),
    lastModified: maybe(LAST_MODIFIED),
    ageMs: fc.constantFrom(0, 1_500, 58_000, 59_999, 60_000, 70_000, 500_000, 1_100_000),
    bornBeforeMs: fc.constantFrom(0, 3_000),
    etag: fc.constantFrom(TAG, "another"),
    upstreamStale: fc.constantFrom<Entry["upstreamStale"]>({}, { whileRevalidateMs: 0, ifErrorMs: 0 }),
  })
  .map(({ body, lastModified, ageMs, bornBeforeMs, ...rest }) => {
    const storedAt = clock.now() - ageMs;
    const validators = { etag: undefined, lastModified };
    return entryWith(body, storedAt, { ...rest, validators, bornAt: storedAt - bornBeforeMs });
  });

/** What happens before a request comes for the second time. */
const meanwhile = fc.record({
  passesMs: fc.constantFrom(0, 400, 1_000, 30_000),
  /** The upstream confirms the answer, with another date. */
  isConfirmed: fc.boolean(),
});

const purge = fc.constantFrom("no", "no", "no", "soft", "hard");

let [plain, quick]: (Awaited<ReturnType<typeof startGateway>> | undefined)[] = [];
beforeAll(async () => {
  plain = await startGateway(true);
  quick = await startGateway(false);
});
afterAll(() => {
  plain?.close();
  quick?.close();
});

it("every request gets the same response, log record and refresh on the fast path as on the slow one", async () => {
  const isSame = fc.asyncProperty(
    entry,
    purge,
    fc.array(fc.tuple(asked, meanwhile), { minLength: 1, maxLength: 4 }),
    async (cached, purged, requests) => {
      const gateways = [plain, quick].filter((gateway) => gateway !== undefined);
      for (const { tiers } of gateways) {
        await tiers.drop(KEY);
        await tiers.keep(KEY, { ...cached, purgeEpoch: tiers.purgeEpoch() });
        if (purged !== "no") await tiers.purge({ kind: "key", key: KEY }, purged === "hard");
      }
      for (const [request, { passesMs, isConfirmed }] of requests) {
        // Twice: the second time, the target and the coding are known, and the head is ready.
        for (let time = 0; time < 2; time++) {
          if (time === 1) {
            clock.set(clock.now() + passesMs);
            for (const { tiers } of isConfirmed ? gateways : []) await confirm(tiers);
          }
          const [expected, found] = await Promise.all(gateways.map((gateway) => gateway.ask(request)));
          expect(found).toEqual(expected);
        }
      }
    },
  );
  await fc.assert(isSame, { numRuns: 250 });
  const hits = quick?.records.filter(({ outcome }) => outcome === "hit") ?? [];
  expect(hits.length).toBeGreaterThan(50);
});

const KEY = keyOf("listings?offset=0");

async function confirm(tiers: Tiers): Promise<void> {
  const found = tiers.peek(KEY, clock.now());
  if (found === undefined) return;
  const now = clock.now();
  const validators = { etag: undefined, lastModified: "Thu, 15 Jan 2026 11:30:00 GMT" };
  const times = { storedAt: now, bornAt: now, freshUntil: now + 60_000, keepUntil: now + 1_000_000 };
  await tiers.keep(KEY, { ...found.entry, ...times, validators });
}
