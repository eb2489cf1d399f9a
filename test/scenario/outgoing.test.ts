import { describe, expect, it } from "vitest";

import { OF_THE_ANSWER, OF_THE_CONNECTION } from "../support/ask.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startGateway } from "../support/gateway.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";
import { NO_AREAS, signatureOf, startUpstream, type Seen } from "../support/upstream.ts";

const NO_STORE = { "cache-control": "no-store" };
const PASS_AREAS = 'upstream: { passThrough: ["/areas/*"] }';

const COMPANY = [
  ["accept", "application/json"],
  ["user-agent", "property-gateway-test/1.0 (ops@agency.test)"],
  ["referer", "https://www.agency.test/"],
  ["referrer", "https://www.agency.test/"],
];

/** A caller with many headers. */
const TALKATIVE = {
  accept: "application/json;q=0.9, text/html;q=0.1",
  "accept-language": "sv",
  "accept-encoding": "br",
  authorization: "Bearer caller",
  cookie: "session=caller",
  "content-type": "text/caller",
  forwarded: "for=10.0.0.1",
  "if-modified-since": "Sat, 01 Jan 2000 00:00:00 GMT",
  "if-none-match": '"caller"',
  origin: "https://caller.example",
  range: "bytes=0-1",
  referer: "https://caller.example/",
  "user-agent": "caller/1",
  via: "1.1 caller",
  "x-app-id": "caller",
  "x-forwarded-for": "10.0.0.1",
  "x-request-id": "caller-1",
  "x-private-key": "caller",
  te: "trailers",
  connection: "keep-alive, x-hop",
  "x-hop": "caller",
};

function withoutConnection({ headers }: Seen): unknown[] {
  return headers.filter(([name]) => !["host", "connection", "accept-encoding"].includes(name));
}

describe("every upstream request", () => {
  it("spells the service as the settings do", async () => {
    const upstream = await startUpstream();
    const gateway = await startGateway({ env: { ...upstream.env, UPSTREAM_SERVICE: "PropertyService" } });
    const accept = "application/vnd.propertyservice-v2+json";
    for (const headers of [{ accept }, { accept, ...NO_STORE }]) await gateway.get("/areas?q=x", { headers });
    const asked = upstream.seen.map((seen) => new Map(seen.headers).get("accept"));
    const expected = "application/vnd.PropertyService-v2+json";
    expect(asked).toEqual([expected, expected]);
  });

  it("has its own correct signature, never with the same unique", async () => {
    const upstream = await startUpstream();
    const clock = createSteppingClock();
    const gateway = await startGateway({ clock, env: upstream.env, settings: PASS_AREAS });
    const asks = Array.from({ length: 120 }, (_, n) => {
      const path = n % 3 === 0 ? `/areas/${n}/near` : `/areas?q=${n}`;
      return gateway.get(path, n % 3 === 1 ? { headers: NO_STORE } : {});
    });
    for (const reply of await Promise.all(asks)) expect(reply.status).toBe(200);
    const signatures = upstream.seen.map(signatureOf);
    expect(new Set(signatures.map(({ unique }) => unique)).size).toBe(120);
    expect(new Set(signatures.map(({ question }) => question)).size).toBe(120);
    expect(new Set(signatures.map(({ time }) => time))).toEqual(new Set([Math.floor(clock.now() / 1000)]));
  });

  it("is signed when it is sent", async () => {
    const clock = createFakeClock();
    const start = clock.now() / 1000;
    const upstream = await startUpstream();
    const gateway = await startGateway({ clock, env: { ...upstream.env, BUDGET: "1/4s" } });
    await gateway.get("/areas?q=first");
    const second = gateway.get("/areas?q=second");
    // It waits for a permit.
    await expect.poll(async () => (await gateway.budget()).queue.interactive).toBe(1);
    await clock.advance(4_001);
    expect((await second).status).toBe(200);
    expect(upstream.seen.map((seen) => signatureOf(seen).time)).toEqual([start, Math.floor(start + 4.001)]);
  });

  it.each([
    ["fetched", "/areas?q=Nacka", {}],
    ["streamed", "/areas?q=Nacka", NO_STORE],
    ["passed through", "/areas/76/near", {}],
  ])("identifies the company and has nothing of the caller, when %s", async (_name, path, headers) => {
    const upstream = await startUpstream();
    const gateway = await startGateway({ env: upstream.env, settings: PASS_AREAS });
    expect((await gateway.get(path, { headers: { ...TALKATIVE, ...headers } })).status).toBe(200);
    const [seen] = upstream.seen;
    expect(seen?.method).toBe("GET");
    expect(new Set(seen && withoutConnection(seen).map(String))).toEqual(new Set(COMPANY.map(String)));
    expect(JSON.stringify(seen)).not.toMatch(/caller(?!Id)(?!&time)/);
  });

  it("uses one kept connection if possible, at most budget.concurrency, and none of them after a call without an answer", async () => {
    const held: { end(body: string): unknown }[] = [];
    const upstream = await startUpstream((response, number) => {
      held.push(response);
      if (![7, 8, 37].includes(number)) for (const one of held.splice(0)) one.end(NO_AREAS);
    });
    const env = { ...upstream.env, BUDGET_CONCURRENCY: "3" };
    const gateway = await startGateway({ env, settings: "upstream: { headerTimeout: 2s }" });
    for (let n = 0; n < 6; n++)
      expect((await gateway.get(`/areas?q=${n}`, n % 2 === 0 ? {} : { headers: NO_STORE })).status).toBe(200);
    expect([upstream.seen.length, upstream.connections()]).toEqual([6, 1]);
    await Promise.all(Array.from({ length: 30 }, (_, n) => gateway.get(`/areas?q=many-${n}`)));
    expect(upstream.connections()).toBe(3);
    expect((await gateway.get("/areas?q=silent")).status).toBe(504);
    expect((await gateway.get("/areas?q=next")).status).toBe(200);
    expect(upstream.connections()).toBe(4);
  });
});

const INTERNAL = {
  "set-cookie": "internal=1",
  server: "Apache internal",
  "x-powered-by": "PHP internal",
  via: "1.1 internal",
  "x-internal-host": "internal",
  "x-debug-token": "internal",
  "proxy-authenticate": "Basic realm=internal",
  "access-control-allow-origin": "https://internal.example",
  "cache-control": "private, max-age=1",
  expires: "Sat, 01 Jan 2000 00:00:00 GMT",
  age: "77",
  "cache-status": "internal; hit",
  "x-request-id": "internal",
  vary: "x-internal",
  connection: "keep-alive, x-hop",
  "x-hop": "internal",
  trailer: "x-internal-trailer",
};

it.each([
  ["fetched", 200, {}, 200, "77"],
  ["streamed", 200, NO_STORE, 200, "0"],
  ["fetched", 404, {}, 404, "77"],
  ["streamed", 400, NO_STORE, 400, "0"],
  ["fetched", 500, {}, 502, "0"],
  ["streamed", 503, NO_STORE, 503, "0"],
])("a %s answer with status %i loses its hop-by-hop headers", async (_how, status, headers, given, age) => {
  const upstream = await startUpstream((response) => {
    response.writeHead(status, { ...INTERNAL, "content-type": "application/json" });
    response.write(NO_AREAS);
    response.addTrailers({ "x-internal-trailer": "internal" });
    response.end();
  });
  const gateway = await startGateway({ env: upstream.env, settings: "upstream: { retryDelay: 1ms }" });
  const reply = await gateway.get("/areas?q=Nacka", { headers });
  expect(reply.status).toBe(given);
  const ours = new Set([...OF_THE_ANSWER, ...OF_THE_CONNECTION]);
  expect(Object.keys(reply.headers).filter((name) => !ours.has(name))).toEqual([]);
  expect(JSON.stringify(reply.headers)).not.toContain("internal");
  // A stored answer has the upstream's Age.
  expect(reply.headers.age).toBe(age);
});
