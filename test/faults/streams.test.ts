import diagnostics from "node:diagnostics_channel";
import type { ServerResponse } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";

import { describe, expect, it, onTestFinished } from "vitest";

import { settled } from "../support/fake-clock.ts";
import { LISTING_ID, startGateway } from "../support/gateway.ts";
import { cacheStatus, exchangeRaw, problemCode } from "../support/ask.ts";
import { NO_AREAS, startUpstream } from "../support/upstream.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const NO_STORE = { "cache-control": "no-store" };
/** `maxCoolOff` is short, so that the next request is sent at once. Other tests are about the pause. */
const QUICK = { settings: 'upstream: { passThrough: ["/areas/*"] }\nbudget: { maxCoolOff: 1ms }' };

describe("a stream that meets an upstream that", () => {
  it.each<[string, (response: ServerResponse) => void, string, number]>([
    ["cuts a long body", (response) => void setImmediate(() => response.destroy()), "cut-body", 502],
    ["sends too much", (response) => void response.end(" ".repeat(5_000_000)), "too-large", 502],
    ["stops in the middle of a long body", () => undefined, "total-timeout", 504],
  ])("%s is cut itself, so that nobody takes it for a whole answer", async (_name, goOn, status, code) => {
    const upstream = await startUpstream((response, number) => {
      if (number > 2) return void response.end(NO_AREAS);
      response.write(`{"areas":[${" ".repeat(200_000)}`, () => goOn(response));
    });
    const gateway = await startGateway({ env: upstream.env, settings: "upstream: { totalTimeout: 3s }" });
    await expect(gateway.get("/areas?q=x", { headers: NO_STORE })).rejects.toThrow();
    // HTTP/1.0 has no chunks, so the caller could not see the cut.
    const old = await exchangeRaw(gateway.port, "GET /areas?q=x HTTP/1.0\r\nCache-Control: no-store\r\n\r\n");
    expect(old).toMatch(/^HTTP\/1.1 50[24] /);
    const line = await gateway.logged('"msg":"upstream call"');
    expect(line).toMatchObject({ status, cause: "bypass" });
    expect(line["bytes"]).toBeGreaterThanOrEqual(64 * 1024);
    const problem = code === 504 ? "upstream-timeout" : "upstream-invalid-response";
    const cut = { outcome: "failed", problem, status: code, bytes: expect.toSatisfy(Boolean) };
    expect(await gateway.logged('"msg":"request"')).toMatchObject(cut);
    expect((await gateway.get("/areas?q=behind")).status).toBe(200);
  });

  it("does not speak HTTP gets a problem that shows nothing of what was received", async () => {
    const upstream = await startUpstream((response) => void response.socket?.end("SSH-2.0-internal\r\n"));
    const gateway = await startGateway({ env: upstream.env, ...QUICK });
    const reply = await gateway.get("/areas/76/near");
    expect(problemCode(reply)).toBe("upstream-invalid-response");
    expect(reply.text).not.toContain("internal");
  });
});

/** A body of up to 64 KiB is judged as a whole, a longer one by its beginning. */
describe("an answer with status 200 that is not cached", () => {
  const THUMBNAIL = `/cache/primary_${LISTING_ID}_9x9.jpg`;
  const JSON_TYPE = { "content-type": "application/json" };
  const ERROR_PAGE = "<html>Fatal error in /var/www/internal.php</html>";

  it.each<[string, string, Record<string, string>, string | Buffer]>([
    ["a page", "/areas?q=x", { "content-type": "text/html" }, ERROR_PAGE],
    ["a page that is called JSON", "/areas?q=x", JSON_TYPE, ERROR_PAGE],
    ["nothing", "/areas?q=x", JSON_TYPE, ""],
    ["an error in JSON", "/areas?q=x", JSON_TYPE, '{"error":"internal: FAILURE_QUOTA_EXCEEDED"}'],
    ["JSON of another shape", "/areas?q=x", JSON_TYPE, '{"count":0,"sold":[],"note":"internal"}'],
    ["a short list", "/areas?q=x", JSON_TYPE, '{"count":2,"areas":[{"name":"internal"}]}'],
    ["another record", "/listings/1", JSON_TYPE, '{"listings":[{"serviceId":2,"url":"internal"}]}'],
    ["an error on a path passed through", "/areas/76/near", JSON_TYPE, '{"error":"internal"}'],
    ["a long page", "/areas?q=x", JSON_TYPE, ERROR_PAGE + " ".repeat(200_000)],
    ["gzip without Content-Encoding", "/areas?q=x", JSON_TYPE, gzipSync(NO_AREAS)],
    ["in another encoding", "/areas?q=x", { ...JSON_TYPE, "content-encoding": "br" }, NO_AREAS],
    ["broken gzip", "/areas?q=x", { ...JSON_TYPE, "content-encoding": "gzip" }, NO_AREAS],
    ["a page on a path passed through", "/areas/76/near", { "content-type": "text/html" }, ERROR_PAGE],
    ["a page for a thumbnail", THUMBNAIL, { "content-type": "image/jpeg" }, ERROR_PAGE],
  ])("is refused if it is %s", async (_name, path, headers, body) => {
    const upstream = await startUpstream((response) => void response.writeHead(200, headers).end(body));
    const gateway = await startGateway({ env: upstream.env, ...QUICK });
    const reply = await gateway.get(path, { headers: NO_STORE });
    expect([reply.status, problemCode(reply)]).toEqual([502, "upstream-invalid-response"]);
    expect(reply.text).not.toContain("internal");
    expect(upstream.seen).toHaveLength(1);
  });

  it.each(["/areas?q=x", "/areas/76/near"])(
    "is requested without an encoding, and decoded if it has one: %s",
    async (path) => {
      const upstream = await startUpstream((response) => {
        response.writeHead(200, { ...JSON_TYPE, "content-encoding": "gzip", etag: '"of-the-gzip"' });
        response.end(gzipSync(NO_AREAS));
      });
      const gateway = await startGateway({ env: upstream.env, ...QUICK });
      const reply = await gateway.get(path, { headers: NO_STORE });
      expect([reply.status, reply.text]).toEqual([200, NO_AREAS]);
      expect(reply.headers).toMatchObject(JSON_TYPE);
      expect(await gateway.logged('"msg":"request"')).toMatchObject({ bytes: NO_AREAS.length });
      for (const name of ["content-encoding", "content-length", "etag"])
        expect([name, reply.headers[name]]).toEqual([name, undefined]);
      expect(new Map(upstream.seen[0]?.headers).get("accept-encoding")).toBe("identity");
    },
  );

  it("keeps the limit and the offset that the upstream applied, also behind a byte order mark", async () => {
    const body = '{"totalCount":9,"count":1,"listings":[{"serviceId":1}],"limit":30,"offSet":7}';
    const upstream = await startUpstream((response) => void response.end(`\uFEFF${body}`));
    const gateway = await startGateway({ env: upstream.env, ...QUICK });
    for (const headers of [NO_STORE, {}])
      expect((await gateway.get("/listings?limit=500&offset=0", { headers })).text.trim()).toBe(body);
  });
});

describe("a stream", () => {
  it.each([
    ["before the head arrives", ""],
    ["while the body arrives", NO_AREAS.slice(0, 9)],
  ])("whose caller hangs up %s frees its slot at once", async (_when, begun) => {
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

  it("leaves nothing in memory", async () => {
    const upstream = await startUpstream((response) => void response.end(NO_AREAS));
    const gateway = await startGateway({ env: { ...upstream.env, BUDGET: "100000/1m" } });
    const requests: WeakRef<object>[] = [];
    const keep = (message: unknown): void =>
      void requests.push(new WeakRef(Object(Reflect.get(Object(message), "request"))));
    diagnostics.subscribe("http.client.request.start", keep);
    onTestFinished(() => void diagnostics.unsubscribe("http.client.request.start", keep));
    for (let number = 0; number < 30; number++)
      expect((await gateway.get("/areas?q=x", { headers: NO_STORE })).status).toBe(200);
    expect(requests.length).toBeGreaterThanOrEqual(60);
    await settled();
    collectGarbage();
    // The latest ones may still be in use.
    expect(requests.filter((request) => request.deref() !== undefined).length).toBeLessThan(15);
  });

  it("of a thumbnail is the picture itself, requested unsigned and not cached", async () => {
    const gateway = await startGateway();
    const path = `/cache/primary_${LISTING_ID}_40x30.jpg`;
    const streamed = await gateway.get(path, { headers: NO_STORE });
    expect(streamed.headers["content-type"]).toBe("image/jpeg");
    expect(gateway.sandbox.requests().map(({ query }) => query)).toEqual([""]);
    const kept = await gateway.get(path);
    expect(cacheStatus(kept)).toMatchObject({ fwd: "miss" });
    expect(kept.body.equals(streamed.body)).toBe(true);
  });
});
