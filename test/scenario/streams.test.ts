import http from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

const PATH = "/listings?areaId=76&limit=5";
const NO_STORE = {
  headers: { "cache-control": "no-cache, No-Store", cookie: "a=b", "user-agent": "internal/1" },
};

describe("a request with no-store", () => {
  it("is answered by the upstream itself, and nothing of it is cached", async () => {
    const gateway = await startGateway();
    const kept = await gateway.get(PATH);
    const streamed = await gateway.get(PATH, NO_STORE);
    expect(streamed.text).toBe(kept.text);
    expect(cacheStatus(streamed)).toEqual({
      fwd: "request",
      "fwd-status": "200",
      key: "listings?areaId=76&limit=5&offset=0",
    });
    expect(streamed.headers).toMatchObject({
      "cache-control": "no-store",
      age: "0",
      "content-type": "application/json",
    });
    await gateway.get("/areas?q=Nacka", NO_STORE);
    expect(cacheStatus(await gateway.get("/areas?q=Nacka"))).toMatchObject({ fwd: "miss" });
    expect(gateway.sandbox.requests()).toHaveLength(4);
  });

  it("whose caller does not read the answer frees its upstream slot as soon as the body has arrived", async () => {
    const gateway = await startGateway({
      settings: "upstream: { maxBodyBytes: 64MiB, bodyTimeout: 1h, totalTimeout: 1h }\n",
      env: { BUDGET_CONCURRENCY: "1" },
    });
    // More than the sockets between caller and gateway hold.
    gateway.sandbox.faults.add({ oversizeBytes: 48 * 1024 * 1024, times: 1 });
    const slow = http.get(gateway.url + PATH, { headers: NO_STORE.headers });
    onTestFinished(() => void slow.destroy());
    const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
      slow.on("response", resolve).on("error", reject);
    });
    expect((await gateway.get("/areas?q=behind")).status).toBe(200);
    let bytes = 0;
    for await (const piece of response) bytes += Buffer.from(piece).length;
    expect([bytes, response.complete]).toEqual([48 * 1024 * 1024, true]);
  });

  it("whose caller hangs up in the queue is never sent", async () => {
    const gateway = await startGateway({ env: { BUDGET_CONCURRENCY: "1" } });
    gateway.sandbox.hold();
    const inFront = gateway.get("/areas?q=front");
    await gateway.sandbox.waitForRequests(1);
    const hangUp = new AbortController();
    const left = gateway.get("/areas?q=left", { ...NO_STORE, signal: hangUp.signal });
    left.catch(() => undefined);
    await gateway.admitted();
    hangUp.abort();
    await expect(left).rejects.toThrow();
    gateway.sandbox.release();
    expect((await inFront).status).toBe(200);
    expect((await gateway.get("/areas?q=behind")).status).toBe(200);
    expect(gateway.sandbox.requests().map(({ query }) => query)).toEqual(["q=front", "q=behind"]);
  });
});

describe("a path passed through", () => {
  const settings = 'upstream: { passThrough: ["/listings/{serviceId}/similar", "/areas/*"] }';

  it("is streamed with its parameters, signed, and never cached", async () => {
    const gateway = await startGateway({ settings });
    for (let round = 0; round < 2; round++) {
      // The sandbox has no such path. It answers 404 after it has accepted the signature.
      const reply = await gateway.get("/listings/7/similar/?b=2&a=%c3%a5&hash=x&key=y");
      expect([reply.status, problemCode(reply)]).toEqual([404, "not-found"]);
    }
    expect(gateway.sandbox.requests().map(({ path, query }) => `${path}?${query}`)).toEqual([
      "/listings/7/similar?a=%C3%A5&b=2",
      "/listings/7/similar?a=%C3%A5&b=2",
    ]);
  });
});
