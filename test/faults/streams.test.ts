import { gzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import type { Fault } from "../../src/sandbox/faults.ts";
import { CALLER, LISTING_ID, startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { NO_AREAS, startUpstream } from "../support/upstream.ts";

const NO_STORE = { "cache-control": "no-store" };
const PATH = "/listings?areaId=76&limit=5";
/** An upstream that asks to be left alone is asked again at once: what that does is tested elsewhere. */
const QUICK = {
  settings: `
upstream: { connectTimeout: 200ms, headerTimeout: 200ms, bodyTimeout: 200ms, totalTimeout: 400ms, passThrough: ["/areas/*"] }
budget: { maxCoolOff: 1ms }`,
};

describe("a stream that meets an upstream that", () => {
  it.each<[string, Fault, number, string, string?]>([
    ["fails", { status: 500 }, 502, "upstream-error", "5"],
    ["is unavailable", { status: 503 }, 503, "upstream-unavailable", "5"],
    // It is left alone for a millisecond at the most, and callers for the second that it takes to say so.
    ["says for how long it is", { status: 503, retryAfter: "30" }, 503, "upstream-unavailable", "1"],
    ["is asked too much", { status: 429, retryAfter: "7" }, 503, "upstream-unavailable", "1"],
    ["refuses our key", { status: 403 }, 502, "upstream-authentication-failed"],
    ["refuses the method", { status: 405 }, 502, "upstream-invalid-response"],
    ["refuses the format", { status: 406 }, 502, "upstream-invalid-response"],
    ["sends elsewhere", { redirect: true }, 502, "upstream-invalid-response"],
    ["refuses the query", { status: 400 }, 400, "upstream-rejected"],
    ["knows no such thing", { status: 404 }, 404, "not-found"],
    ["breaks off before its answer", { disconnect: true }, 502, "upstream-unreachable"],
    ["never answers", { hang: "headers" }, 504, "upstream-timeout"],
  ])(
    "%s (%o) gets %i %s after one call, and the next one is answered",
    async (_name, fault, status, code, wait) => {
      const gateway = await startGateway(QUICK);
      gateway.sandbox.faults.add({ ...fault, times: 1 });
      const reply = await gateway.get(PATH, { headers: NO_STORE });
      expect([reply.status, problemCode(reply)]).toEqual([status, code]);
      expect(cacheStatus(reply)).toEqual({ fwd: "miss", detail: code });
      expect(reply.headers["retry-after"]).toBe(wait);
      expect(reply.text).not.toMatch(new RegExp(`127\\.0\\.0\\.1|hash=|${CALLER.callerId}`));
      expect(gateway.sandbox.requests()).toHaveLength(1);
      expect((await gateway.get(PATH, { headers: NO_STORE })).status).toBe(200);
    },
  );

  // Before: the caller's response broke off in the middle, because its head had gone out with the upstream's.
  it.each<[string, Fault, number, string]>([
    ["cuts the body", { cutBody: true }, 502, "upstream-invalid-response"],
    ["stops in the middle", { hang: "body" }, 504, "upstream-timeout"],
    ["sends too much", { oversizeBytes: 5_000_000 }, 502, "upstream-invalid-response"],
  ])("%s gets a problem, as from the cache", async (_name, fault, status, code) => {
    const gateway = await startGateway("hang" in fault ? QUICK : {});
    for (const headers of [NO_STORE, {}]) {
      gateway.sandbox.faults.add({ ...fault, times: 1 });
      const reply = await gateway.get(PATH, { headers });
      expect([reply.status, problemCode(reply)]).toEqual([status, code]);
    }
    await gateway.logged('"msg":"upstream call"', '"cause":"bypass"');
    expect((await gateway.get(PATH, { headers: NO_STORE })).status).toBe(200);
  });

  it("is gone gets a problem, by every way", async () => {
    const gateway = await startGateway(QUICK);
    await gateway.sandbox.close();
    for (const path of [PATH, "/areas/76/near", `/cache/primary_${LISTING_ID}_9x9.jpg`]) {
      const reply = await gateway.get(path, { headers: NO_STORE });
      expect([path, reply.status, problemCode(reply)]).toEqual([path, 502, "upstream-unreachable"]);
    }
  });

  it("speaks no HTTP gets a problem that shows nothing of what was said", async () => {
    const upstream = await startUpstream((response) => void response.socket?.end("SSH-2.0-internal\r\n"));
    const gateway = await startGateway({ env: upstream.env, ...QUICK });
    const reply = await gateway.get("/areas/76/near");
    expect([problemCode(reply), reply.text.includes("internal")]).toEqual([
      "upstream-invalid-response",
      false,
    ]);
  });
});

/**
 * Before: with `no-store` and on paths passed through, whatever came with status 200 went on to the caller.
 * Cause: the body was sent on piece by piece, unread, and its content coding was not looked at.
 * After: the body is collected, decoded and judged like one for the cache, before the first byte goes out.
 */
describe("what comes with status 200 and is not kept", () => {
  const THUMBNAIL = `/cache/primary_${LISTING_ID}_9x9.jpg`;
  const JSON_TYPE = { "content-type": "application/json" };
  const ERROR_PAGE = "<html>Fatal error in /var/www/internal.php</html>";

  it.each<[string, string, Record<string, string>, string | Buffer]>([
    ["a page", "/areas?q=x", { "content-type": "text/html" }, ERROR_PAGE],
    ["a page that is called JSON", "/areas?q=x", JSON_TYPE, ERROR_PAGE],
    ["an error in JSON", "/areas?q=x", JSON_TYPE, '{"error":"internal: FAILURE_QUOTA_EXCEEDED"}'],
    ["another shape", "/areas?q=x", JSON_TYPE, '{"count":0,"sold":[],"note":"internal"}'],
    ["fewer records than counted", "/areas?q=x", JSON_TYPE, '{"count":2,"areas":[{"name":"internal"}]}'],
    ["another record", "/listings/1", JSON_TYPE, '{"listings":[{"serviceId":2,"url":"internal"}]}'],
    ["gzip that does not say so", "/areas?q=x", JSON_TYPE, gzipSync(NO_AREAS)],
    ["a coding nobody asked for", "/areas?q=x", { ...JSON_TYPE, "content-encoding": "br" }, NO_AREAS],
    ["broken gzip", "/areas?q=x", { ...JSON_TYPE, "content-encoding": "gzip" }, NO_AREAS],
    ["a page below a path passed through", "/areas/76/near", { "content-type": "text/html" }, ERROR_PAGE],
    ["an error below a path passed through", "/areas/76/near", JSON_TYPE, '{"error":"internal"}'],
    ["a page for a thumbnail", THUMBNAIL, { "content-type": "image/jpeg" }, ERROR_PAGE],
  ])("%s is no answer (%s)", async (_name, path, headers, body) => {
    const upstream = await startUpstream((response) => void response.writeHead(200, headers).end(body));
    const gateway = await startGateway({ env: upstream.env, ...QUICK });
    const reply = await gateway.get(path, { headers: NO_STORE });
    expect([reply.status, problemCode(reply)]).toEqual([502, "upstream-invalid-response"]);
    expect(reply.text).not.toContain("internal");
  });

  it.each(["/areas?q=x", "/areas/76/near"])(
    "is asked for as it is, and decoded if need be: %s",
    async (path) => {
      const upstream = await startUpstream((response) => {
        response.writeHead(200, { ...JSON_TYPE, "content-encoding": "gzip", etag: '"of-the-gzip"' });
        response.end(gzipSync(NO_AREAS));
      });
      const gateway = await startGateway({ env: upstream.env, ...QUICK });
      const reply = await gateway.get(path, { headers: NO_STORE });
      expect([reply.status, reply.text]).toEqual([200, NO_AREAS]);
      expect(reply.headers).toMatchObject({ ...JSON_TYPE, "content-length": String(NO_AREAS.length) });
      expect([reply.headers["content-encoding"], reply.headers.etag]).toEqual([undefined, undefined]);
      expect(new Map(upstream.seen[0]?.headers).get("accept-encoding")).toBe("identity");
    },
  );

  it("keeps the limit and the offset that the upstream says it applied", async () => {
    const body = '{"totalCount":9,"count":1,"listings":[{"serviceId":1}],"limit":30,"offSet":7}';
    const upstream = await startUpstream((response) => void response.end(body));
    const gateway = await startGateway({ env: upstream.env, ...QUICK });
    for (const headers of [NO_STORE, {}])
      expect((await gateway.get("/listings?limit=500&offset=0", { headers })).text).toBe(body);
  });
});

describe("a stream", () => {
  // Before: a caller that hung up before the head was here kept its place until `upstream.headerTimeout`.
  // Cause: the proxy does not report a connection that ends because its caller has gone.
  // After: the caller's departure itself ends the exchange.
  it.each([
    ["before the head is here", ""],
    ["while the body is on its way", NO_AREAS.slice(0, 9)],
  ])("whose caller hangs up %s frees its place at once", async (_when, begun) => {
    const { promise: isUnderWay, resolve: goOn } = Promise.withResolvers<void>();
    const upstream = await startUpstream((response, number) => {
      if (number > 1) return void response.end(NO_AREAS);
      if (begun === "") goOn();
      else response.write(begun, () => goOn());
    });
    const gateway = await startGateway({
      env: { ...upstream.env, BUDGET_CONCURRENCY: "1" },
      settings: "upstream: { headerTimeout: 1h, bodyTimeout: 1h, totalTimeout: 1h }",
    });
    const hangUp = new AbortController();
    const left = gateway.get("/areas?q=left", { headers: NO_STORE, signal: hangUp.signal });
    left.catch(() => undefined);
    await isUnderWay;
    hangUp.abort();
    await expect(left).rejects.toThrow();
    expect((await gateway.get("/areas?q=behind")).status).toBe(200);
    await gateway.logged('"msg":"request"', '"outcome":"abandoned"');
  });

  it("of a thumbnail is the picture itself, asked for unsigned, and not kept", async () => {
    const gateway = await startGateway();
    const path = `/cache/primary_${LISTING_ID}_40x30.jpg`;
    const streamed = await gateway.get(path, { headers: NO_STORE });
    expect(streamed.headers["content-type"]).toBe("image/jpeg");
    expect(gateway.sandbox.requests().map(({ query }) => query)).toEqual([""]);
    const kept = await gateway.get(path);
    expect(cacheStatus(kept)).toMatchObject({ fwd: "miss" });
    expect(kept.body.equals(streamed.body)).toBe(true);
  });

  it("that the budget has no permit for is refused like anything else", async () => {
    const gateway = await startGateway({ env: { BUDGET: "1/1h" } });
    expect((await gateway.get(PATH, { headers: NO_STORE })).status).toBe(200);
    for (const headers of [NO_STORE, {}]) {
      const refused = await gateway.get("/areas?q=x", { headers });
      expect(problemCode(refused)).toBe("temporary-reduced-capacity");
      expect(Number(refused.headers["retry-after"])).toBeGreaterThan(3_500);
    }
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("with an expectation is refused before it goes anywhere", async () => {
    const gateway = await startGateway();
    const headers = { ...NO_STORE, expect: "100-continue" };
    expect(problemCode(await gateway.get(PATH, { headers }))).toBe("expectation-failed");
    expect(gateway.sandbox.requests()).toEqual([]);
  });
});
