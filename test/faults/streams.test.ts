import { describe, expect, it } from "vitest";

import type { Fault } from "../../src/sandbox/faults.ts";
import { CALLER, LISTING_ID, startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { startUpstream } from "../support/upstream.ts";

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

  it.each<[string, Fault]>([
    ["cuts the body", { cutBody: true }],
    ["stops in the middle", { hang: "body" }],
    ["sends too much", { oversizeBytes: 5_000_000 }],
  ])(
    "%s after its head has gone out is broken off: what came cannot be taken for whole",
    async (_name, fault) => {
      const gateway = await startGateway(QUICK);
      gateway.sandbox.faults.add({ ...fault, times: 1 });
      await expect(gateway.get(PATH, { headers: NO_STORE })).rejects.toThrow(/aborted|ECONNRESET/);
      const call = await gateway.logged('"msg":"upstream call"', '"cause":"bypass"');
      expect(["cut-body", "total-timeout", "body-timeout", "too-large"]).toContain(call["status"]);
      await gateway.logged('"msg":"request"', '"outcome":"abandoned"');
      expect((await gateway.get(PATH, { headers: NO_STORE })).status).toBe(200);
    },
  );

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

describe("a stream", () => {
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

  it("that the allowance has no place for is refused like anything else", async () => {
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
