import { describe, expect, it } from "vitest";

import { BadFault, createFaultQueue } from "../../../src/sandbox/faults.ts";
import type { Fault } from "../../../src/sandbox/faults.ts";
import { call, parsed, signed, started } from "./support.ts";

describe("the queue of faults", () => {
  it("applies each fault to its number of requests, one fault after the other", () => {
    const faults = createFaultQueue();
    faults.add({ status: 503, times: 2 }, { cutBody: true, times: 1 });
    expect(faults.take("/sold").status).toBe(503);
    expect(faults.list()).toEqual([
      { status: 503, times: 1 },
      { cutBody: true, times: 1 },
    ]);
    expect(faults.take("/sold").status).toBe(503);
    expect(faults.take("/sold").cutBody).toBe(true);
    expect(faults.take("/sold")).toEqual({ latencyMs: 0, clockSkewSeconds: 0 });
    expect(faults.list()).toEqual([]);
  });

  it("applies a fault without a number until it is cleared", () => {
    const faults = createFaultQueue();
    faults.add({ status: 500 });
    expect([1, 2, 3].map(() => faults.take("/").status)).toEqual([500, 500, 500]);
    faults.clear();
    expect(faults.take("/").status).toBeUndefined();
  });

  it("applies a fault to its path only", () => {
    const faults = createFaultQueue();
    faults.add({ status: 500, pathPrefix: "/sold", times: 1 });
    expect(faults.take("/listings").status).toBeUndefined();
    expect(faults.take("/sold/1").status).toBe(500);
  });

  it("combines delays and skews with other faults", () => {
    const faults = createFaultQueue();
    faults.add({ latencyMs: 5 }, { clockSkewSeconds: -3 }, { status: 503, latencyMs: 7, times: 1 });
    expect(faults.take("/")).toMatchObject({ latencyMs: 12, clockSkewSeconds: -3, status: 503 });
    expect(faults.take("/")).toEqual({ latencyMs: 5, clockSkewSeconds: -3 });
  });

  it.each<[object, string]>([
    [{ statuss: 503 }, "statuss is not known"],
    [{ status: "503" }, "status must be an integer from 200 to 599"],
    [{ hang: "forever" }, 'hang must be "headers" or "body"'],
    [{ times: 0 }, "times must be an integer"],
    [{ cutBody: 1 }, "cutBody must be true or false"],
    [{ headers: "age: 5" }, "headers must be an object"],
    [{ headers: ["age"] }, "headers must be an object"],
    [{ headers: { age: 5 } }, "headers must be an object"],
    [{ headers: { "cache control": "no-store" } }, "headers must be"],
    [{ headers: { age: "5\r\nX-Other: 1" } }, "headers must be"],
    [{ headers: { Connection: "close" } }, "none of them hop-by-hop"],
    [{ headers: { "transfer-encoding": "chunked" } }, "none of them hop-by-hop"],
    [{ headers: { "Content-Length": "1" } }, "body's length"],
    [{ respell: "yes" }, "respell must be true or false"],
    [[], "a fault is an object"],
  ])("refuses %j", (fault, message) => {
    const faults = createFaultQueue();
    expect(() => faults.add(fault as Fault)).toThrow(BadFault);
    expect(() => faults.add(fault as Fault)).toThrow(message);
    expect(faults.list()).toEqual([]);
  });
});

describe("over the wire", () => {
  it.each([
    [500, "FAILURE_INTERNAL"],
    [503, "FAILURE_UNAVAILABLE"],
    [429, "FAILURE_QUOTA_EXCEEDED"],
    [502, "FAILURE - 502"],
  ])("status %i comes with an explanation and Retry-After", async (status, text) => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ status, retryAfter: "17", times: 1 });
    const reply = await call(`${url}/listings`);
    expect(reply).toMatchObject({ status, headers: { "retry-after": "17" } });
    expect(reply.text).toContain(text);
    expect((await call(url + signed("/listings"))).status).toBe(200);
  });

  it("a redirect has a Location", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ redirect: true });
    expect(await call(url + signed("/sold"))).toMatchObject({
      status: 302,
      headers: { location: "/redirected" },
    });
  });

  it("a cut body has the full Content-Length and ends early", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ cutBody: true });
    await expect(call(url + signed("/sold"))).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(sandbox.requests()[0]).toMatchObject({ status: 200 });
  });

  it("a broken connection has no answer", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ disconnect: true });
    await expect(call(url + signed("/sold"))).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(sandbox.requests()[0]).toMatchObject({ status: null });
  });

  it.each(["headers", "body"] as const)(
    "a request that hangs before its %s ends with a reset",
    async (hang) => {
      const { sandbox, url } = await started();
      sandbox.faults.add({ hang, times: 1 });
      const reply = call(url + signed("/sold"));
      await sandbox.waitForRequests(1);
      const settled = expect(reply).rejects.toMatchObject({ code: "ECONNRESET" });
      sandbox.reset();
      await settled;
    },
  );

  it("a body that is not JSON looks like an answer", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ wrongJson: true });
    const reply = await call(url + signed("/sold"));
    expect(reply).toMatchObject({ status: 200, headers: { "content-type": "application/json" } });
    expect(() => parsed(reply)).toThrow(SyntaxError);
  });

  it("a wrong envelope is valid JSON", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ wrongEnvelope: true });
    const reply = await call(url + signed("/sold"));
    expect(reply.status).toBe(200);
    expect(parsed(reply)).not.toHaveProperty("sold");
  });

  it("an oversized body is as long as asked, and still JSON", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ oversizeBytes: 3_000_000 });
    const reply = await call(url + signed("/sold?limit=1"));
    expect(reply.body).toHaveLength(3_000_000);
    expect(parsed(reply)).toMatchObject({ count: 1 });
  });

  it("a delayed answer is dropped when its caller leaves", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ latencyMs: 3_600_000, times: 1 });
    const leaving = new AbortController();
    const reply = call(url + signed("/sold"), { signal: leaving.signal });
    await sandbox.waitForRequests(1);
    leaving.abort();
    await expect(reply).rejects.toThrow("aborted");
    expect((await call(url + signed("/sold"))).status).toBe(200);
  });

  it("thumbnails fail too", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ status: 503, pathPrefix: "/cache/" });
    expect((await call(`${url}/cache/primary_1_10x10.jpg`)).status).toBe(503);
    expect((await call(url + signed("/sold"))).status).toBe(200);
  });
});
