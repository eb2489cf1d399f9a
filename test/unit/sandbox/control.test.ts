import { describe, expect, it, onTestFinished } from "vitest";

import { systemClock } from "../../../src/process/clock.ts";
import { listen } from "../../../src/process/listen.ts";
import { createBarrier } from "../../../src/sandbox/barrier.ts";
import { createControlServer } from "../../../src/sandbox/control.ts";
import type { Sandbox } from "../../../src/sandbox/sandbox.ts";
import { CALLER, DATA, NOW_MS, call, parsed, signed, started } from "./support.ts";
import type { Reply } from "./support.ts";

type Control = (method: string, path: string, body?: unknown) => Promise<Reply>;

async function controlled(): Promise<{ sandbox: Sandbox; url: string; control: Control }> {
  const { sandbox, url } = await started();
  const listening = await sandbox.listenControl();
  const control: Control = (method, path, body) =>
    call(listening.url + path, { method, ...(body !== undefined && { body: JSON.stringify(body) }) });
  return { sandbox, url, control };
}

describe("the list of arrivals", () => {
  it("says who asked what and how it ended, without credentials", async () => {
    const { sandbox, url, control } = await controlled();
    const sent = signed("/listings?q=a+b&key=mistake&limit=1");
    const headers = {
      Accept: "application/json",
      "User-Agent": "test/1",
      Referrer: `https://example.org/x?${sent.split("?")[1]}`,
    };
    await call(url + sent, { headers });
    const reply = await control("GET", "/requests");
    expect(sandbox.requests()).toEqual([
      {
        at: NOW_MS,
        method: "GET",
        path: "/listings",
        query: "q=a+b&limit=1",
        status: 200,
        userAgent: "test/1",
        referer: null,
        referrer: "https://example.org/x?q=a+b&limit=1",
        accept: "application/json",
        conditional: false,
        headerNames: expect.arrayContaining(["accept", "user-agent", "referrer", "host"]) as unknown,
      },
    ]);
    expect(parsed(reply)["requests"]).toEqual(sandbox.requests());
    const { hash, unique } = Object.fromEntries(new URLSearchParams(sent.split("?")[1]));
    for (const secret of [hash!, unique!, CALLER.privateKey, "mistake"])
      expect(reply.text).not.toContain(secret);
  });

  it.each([
    ["an & where the ? should be", "/listings/1&hash=secret&limit=2", "/listings/1", "limit=2"],
    ["a second ?", "/listings?limit=2?hash=secret", "/listings", "limit=2"],
    ["an encoded name", "/listings?h%61sh=secret&limit=2", "/listings", "limit=2"],
    ["another case", "/listings?HASH=secret&limit=2", "/listings", "limit=2"],
  ])("hides credentials behind %s", async (_name, address, path, query) => {
    const { sandbox, url } = await started();
    await call(url + address);
    expect(sandbox.requests()[0]).toMatchObject({ path, query });
  });

  it("is counted by path and resource, and cleared", async () => {
    const { sandbox, url, control } = await controlled();
    for (const path of ["/listings", "/listings", "/sold/1", "/cache/x", "/else"]) await call(url + path);
    expect(parsed(await control("GET", "/requests"))["counts"]).toEqual({
      total: 5,
      byResource: { listings: 2, sold: 1, images: 1, other: 1 },
      byPath: { "/listings": 2, "/sold/1": 1, "/cache/x": 1, "/else": 1 },
    });
    expect((await control("DELETE", "/requests")).status).toBe(200);
    expect(sandbox.counts()).toEqual({ total: 0, byResource: {}, byPath: {} });
    expect(sandbox.requests()).toEqual([]);
  });

  it("can be waited for", async () => {
    const { url, control } = await controlled();
    const waited = control("GET", "/requests?atLeast=2");
    await call(`${url}/listings`);
    await call(`${url}/sold`);
    expect(parsed(await waited)["requests"]).toHaveLength(2);
  });
});

describe("the barrier", () => {
  it("holds requests after they are recorded, and lets them go", async () => {
    const { sandbox, url, control } = await controlled();
    await control("POST", "/hold");
    const replies = [call(url + signed("/listings")), call(url + signed("/sold"))];
    await sandbox.waitForRequests(2);
    expect(sandbox.waiting()).toBe(2);
    expect(sandbox.requests().map(({ status }) => status)).toEqual([null, null]);
    expect(parsed(await control("GET", "/"))).toMatchObject({ holding: true, waiting: 2 });
    await control("POST", "/release");
    expect((await Promise.all(replies)).map(({ status }) => status)).toEqual([200, 200]);
    expect(parsed(await control("GET", "/"))).toMatchObject({ holding: false, waiting: 0 });
  });

  it("lets the first so many go, and spares other paths", async () => {
    const { sandbox, url } = await started();
    sandbox.hold("/sold");
    expect((await call(url + signed("/listings"))).status).toBe(200);
    const [first, second] = [call(url + signed("/sold/1")), call(url + signed("/sold/2"))];
    await sandbox.waitForRequests(3);
    const path = sandbox.requests()[1]?.path;
    sandbox.release(1);
    await (path === "/sold/1" ? first : second);
    expect(sandbox.waiting()).toBe(1);
    sandbox.release();
    await Promise.all([first, second]);
  });

  it("forgets those who left", async () => {
    const barrier = createBarrier();
    const leaving = new AbortController();
    barrier.hold();
    const passed = barrier.pass("/sold", leaving.signal);
    expect(barrier.waiting()).toBe(1);
    leaving.abort();
    await passed;
    expect(barrier.waiting()).toBe(0);
  });

  it("does not keep the sandbox from closing", async () => {
    const { sandbox, url } = await started();
    sandbox.hold();
    const reply = expect(call(url + signed("/sold"))).rejects.toMatchObject({ code: "ECONNRESET" });
    await sandbox.waitForRequests(1);
    await sandbox.close();
    await reply;
  });
});

describe("the control port", () => {
  it("shows the state, and never the key", async () => {
    const { sandbox, control } = await controlled();
    const reply = await control("GET", "/");
    expect(parsed(reply)).toEqual(sandbox.state());
    expect(parsed(reply)).toMatchObject({
      service: "propertyservice",
      callerId: CALLER.callerId,
      sizes: { listings: DATA.listings.length, sold: DATA.sold.length, areas: DATA.areas.length },
      offsetSpelling: "offset",
      faults: [],
    });
    expect(reply.text).not.toContain(CALLER.privateKey);
  });

  it("queues faults, one or several, and resets", async () => {
    const { sandbox, url, control } = await controlled();
    await control("POST", "/faults", { status: 503, times: 1 });
    const listed = await control("POST", "/faults", [{ status: 500, times: 1 }, { latencyMs: 0 }]);
    expect(JSON.parse(listed.text)).toHaveLength(3);
    expect((await call(url + signed("/sold"))).status).toBe(503);
    expect((await call(url + signed("/sold"))).status).toBe(500);
    await control("POST", "/faults", { status: 500 });
    await control("POST", "/reset");
    expect(sandbox.state()).toMatchObject({ faults: [], arrivals: { total: 0 } });
    expect((await call(url + signed("/sold"))).status).toBe(200);
  });

  it("turns the key and changes settings", async () => {
    const { url, control } = await controlled();
    await control("POST", "/settings", { offsetSpelling: "offSet" });
    expect(parsed(await call(url + signed("/sold")))).toHaveProperty("offSet");
    await control("POST", "/settings", { unset: "reversed", bounds: "exclusive" });
    expect(parsed(await control("GET", "/"))).toMatchObject({
      offsetSpelling: "offSet",
      filtering: { unset: "reversed", bounds: "exclusive", order: "newest" },
    });
    await control("POST", "/auth", { privateKey: "turned" });
    expect((await call(url + signed("/sold"))).status).toBe(403);
  });

  it.each<[string, string, unknown, number, string]>([
    ["POST", "/faults", { status: 1 }, 400, "status must be an integer from 200 to 599"],
    ["POST", "/faults", [{ times: 1 }, { nonsense: 1 }], 400, "nonsense is not known"],
    ["POST", "/faults", [7], 400, "a fault is an object"],
    ["POST", "/settings", { offsetSpelling: "OFFSET" }, 400, "offsetSpelling must be"],
    ["POST", "/settings", { validators: "weak" }, 400, "validators must be one of none, etag"],
    ["POST", "/settings", { bounds: "open" }, 400, "bounds must be one of inclusive, exclusive"],
    ["POST", "/settings", { validators: 1 }, 400, "validators must be a string"],
    ["POST", "/revise", { path: "/sold" }, 400, "path is not known"],
    ["POST", "/revise", { pathPrefix: 1 }, 400, "pathPrefix must be a string"],
    ["POST", "/settings", { limit: 5 }, 400, "limit is not known"],
    ["POST", "/auth", { privateKey: 5 }, 400, "privateKey must be a string"],
    ["POST", "/auth", "text", 400, "the body must be an object"],
    ["POST", "/release", { count: -1 }, 400, "count must be"],
    ["POST", "/faults", { pathPrefix: "x".repeat(70_000) }, 400, "the body is too long"],
    ["DELETE", "/auth", undefined, 405, "/auth accepts POST"],
    ["GET", "/nowhere", undefined, 404, "no such call"],
  ])("%s %s %j: %i, and says in plain words why", async (method, path, body, status, text) => {
    const { sandbox, control } = await controlled();
    const reply = await control(method, path, body);
    expect(reply.status).toBe(status);
    // From the first word on: no name of a class stands before it.
    expect(String(parsed(reply)["error"]).slice(0, text.length)).toBe(text);
    expect(sandbox.faults.list()).toEqual([]);
  });

  it("reports its own bug in plain words", async () => {
    const { sandbox } = await started();
    const broken: typeof sandbox = {
      ...sandbox,
      state: () => {
        throw new TypeError("a mistake");
      },
    };
    const server = createControlServer(broken);
    const { url, close } = await listen(server, 0, "127.0.0.1");
    onTestFinished(() => close(systemClock, 0));
    const reply = await call(`${url}/`);
    expect([reply.status, parsed(reply)["error"]]).toEqual([500, "the sandbox has a bug: a mistake"]);
  });
});
