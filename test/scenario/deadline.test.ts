import { describe, expect, it } from "vitest";

import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

const PATH = "/areas?q=Nacka";
const NO_STORE = { "cache-control": "no-store" };
/** The upstream may be slow: the callers' deadline passes first. */
const LONG_TIMEOUTS =
  "upstream: { connectTimeout: 1h, headerTimeout: 1h, bodyTimeout: 1h, totalTimeout: 1h }";
const MAX_WAIT_MS = 10_000;
const NO_JITTER = { fraction: () => 0 };

interface Timed {
  readonly gateway: TestGateway;
  readonly clock: FakeClock;
}

/** A gateway with a fake clock. */
async function startTimed(options: TestGatewayOptions = {}): Promise<Timed> {
  const clock = createFakeClock();
  const gateway = await startGateway({
    settings: LONG_TIMEOUTS,
    clock,
    random: NO_JITTER,
    sandbox: { now: clock.now },
    ...options,
  });
  return { gateway, clock };
}

describe("a caller with a deadline of its own", () => {
  it.each<[string, Readonly<Record<string, string | string[]>>, string | undefined]>([
    ["X-Request-Deadline-Ms", { "x-request-deadline-ms": "2000" }, undefined],
    ["Prefer", { prefer: ["handling=lenient", "respond-async, Wait=2"] }, "wait=2"],
  ])("is answered by its deadline, and other callers by theirs: %s", async (_name, headers, applied) => {
    const { gateway, clock } = await startTimed();
    gateway.sandbox.hold();
    const others = gateway.get(PATH);
    await gateway.sandbox.waitForRequests(1);
    const kept = gateway.get(PATH, { headers });
    const streamed = gateway.get("/areas?q=x", { headers: { ...headers, ...NO_STORE } });
    await gateway.sandbox.waitForRequests(2);
    await gateway.admitted();
    await clock.advance(1_999);
    // No deadline has passed yet: this request waits, and is answered with the others.
    const late = gateway.get(PATH);
    await gateway.admitted();
    await clock.advance(1);
    expect(problemCode(await kept)).toBe("deadline-exceeded");
    for (const reply of [await kept, await streamed]) {
      expect([reply.status, reply.headers["preference-applied"]]).toEqual([504, applied]);
    }
    gateway.sandbox.release();
    for (const reply of [await others, await late]) {
      expect([reply.status, reply.headers["preference-applied"]]).toEqual([200, undefined]);
    }
  });

  it("gets Preference-Applied with an answer too", async () => {
    const gateway = await startGateway();
    const headers = { prefer: "wait=3" };
    for (const options of [{ headers }, { headers }, { headers: { ...headers, ...NO_STORE } }]) {
      const reply = await gateway.get(PATH, options);
      expect([reply.status, reply.headers["preference-applied"]]).toEqual([200, "wait=3"]);
    }
  });

  it.each<[string, string | string[]]>([
    ["no number", "soon"],
    ["zero", "0"],
    ["repeated", ["1500", "1500"]],
  ])("that is malformed (%s) gets 400, without an upstream call", async (_name, value) => {
    const gateway = await startGateway();
    const reply = await gateway.get(PATH, { headers: { "x-request-deadline-ms": value } });
    expect([reply.status, problemCode(reply)]).toEqual([400, "malformed-request"]);
    expect(reply.json()).toMatchObject({ detail: expect.stringContaining("X-Request-Deadline-Ms") });
    expect(gateway.sandbox.requests()).toEqual([]);
  });
});

describe("each caller", () => {
  it("has its own deadline: the first one's passes, and the second one still gets the answer of the same call", async () => {
    const { gateway, clock } = await startTimed();
    gateway.sandbox.hold();
    const first = gateway.get(PATH);
    await gateway.sandbox.waitForRequests(1);
    await clock.advance(6_000);
    const second = gateway.get(PATH);
    await gateway.admitted();
    await clock.advance(4_000);
    const late = await first;
    expect([late.status, problemCode(late)]).toEqual([504, "deadline-exceeded"]);
    gateway.sandbox.release();
    expect(cacheStatus(await second)).toMatchObject({ fwd: "miss", collapsed: true, stored: true });
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("is answered by its deadline while the upstream hangs, cached or streamed", async () => {
    const { gateway, clock } = await startTimed({ env: { BUDGET_CONCURRENCY: "2" } });
    gateway.sandbox.hold();
    // The first two take both places and keep them: for the upstream there is time.
    const asks = Array.from({ length: 30 }, (_, n) =>
      gateway.get(`/areas?q=${n % 10}`, n % 3 === 2 ? { headers: NO_STORE } : {}),
    );
    await gateway.sandbox.waitForRequests(2);
    await gateway.admitted();
    // Those in the queue go by the queue's timer, which is a millisecond later.
    await clock.advance(MAX_WAIT_MS + 1);
    const ends = (await Promise.all(asks)).map((reply) => `${reply.status} ${problemCode(reply)}`);
    const [sent, queued] = ["504 deadline-exceeded", "503 temporary-reduced-capacity"];
    expect(new Set(ends)).toEqual(new Set([sent, queued]));
    // Three asked each question, and one of them streamed it.
    expect(ends.filter((end) => end === sent).length).toBeLessThanOrEqual(4);
    // Nothing of those that were still in the queue was sent after all.
    gateway.sandbox.release();
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    expect((await gateway.get("/areas?q=next")).status).toBe(200);
    expect(gateway.sandbox.requests()).toHaveLength(3);
  });

  it("whose deadline passes leaves a call whose answer is still cached", async () => {
    const { gateway, clock } = await startTimed();
    gateway.sandbox.hold();
    const late = gateway.get(PATH);
    await gateway.sandbox.waitForRequests(1);
    await clock.advance(MAX_WAIT_MS);
    expect((await late).status).toBe(504);
    gateway.sandbox.release();
    // It may be still on its way; in either case it is not asked for again.
    expect((await gateway.get(PATH)).status).toBe(200);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ hit: true });
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("that hangs up in the queue costs no call; others still get the same answer", async () => {
    const { gateway } = await startTimed({ env: { BUDGET_CONCURRENCY: "1" } });
    gateway.sandbox.hold();
    const inFront = gateway.get("/areas?q=front");
    await gateway.sandbox.waitForRequests(1);
    const hangUp = new AbortController();
    const shared = gateway.get("/areas?q=shared", { signal: hangUp.signal });
    const alone = gateway.get("/areas?q=alone", { signal: hangUp.signal });
    const stayed = gateway.get("/areas?q=shared");
    await gateway.admitted();
    hangUp.abort();
    await expect(Promise.allSettled([shared, alone])).resolves.toMatchObject([
      { status: "rejected" },
      { status: "rejected" },
    ]);
    await gateway.logged('"outcome":"abandoned"', "q=alone");
    gateway.sandbox.release();
    expect((await inFront).status).toBe(200);
    expect((await stayed).status).toBe(200);
    expect((await gateway.get("/areas?q=next")).status).toBe(200);
    expect(gateway.sandbox.requests().map(({ query }) => query)).toEqual(["q=front", "q=shared", "q=next"]);
  });
});

describe("the budget", () => {
  it("makes a caller wait if a permit is free before the deadline, and refuses it at once if not", async () => {
    const { gateway, clock } = await startTimed({ env: { BUDGET: "2/1m" } });
    for (const q of ["a", "b"]) expect((await gateway.get(`/areas?q=${q}`)).status).toBe(200);

    // A moment past the minute, rounded up.
    const refused = await gateway.get("/areas?q=c");
    expect([problemCode(refused), refused.headers["retry-after"]]).toEqual([
      "temporary-reduced-capacity",
      "61",
    ]);
    await clock.advance(49_999);
    expect((await gateway.get("/areas?q=c")).headers["retry-after"]).toBe("11");

    await clock.advance(2_001);
    const waited = gateway.get("/areas?q=c");
    // A moment past the minute, so that no minute, its ends included, has three.
    await clock.armed(8_001);
    expect(gateway.sandbox.requests()).toHaveLength(2);
    await clock.advance(8_001);
    expect((await waited).status).toBe(200);
  });

  it("with several windows keeps each of them", async () => {
    const { gateway, clock } = await startTimed({ env: { BUDGET: "1/20s,2/1h" } });
    expect((await gateway.get("/areas?q=a")).status).toBe(200);
    expect((await gateway.get("/areas?q=b")).headers["retry-after"]).toBe("21");
    await clock.advance(20_001);
    expect((await gateway.get("/areas?q=b")).status).toBe(200);
    await clock.advance(20_001);
    expect((await gateway.get("/areas?q=c")).headers["retry-after"]).toBe(String(3_600 - 40));
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });

  it("keeps budget.concurrency for fetches and streams together", async () => {
    const { gateway } = await startTimed({ env: { BUDGET_CONCURRENCY: "3" } });
    gateway.sandbox.hold();
    const asks = Array.from({ length: 12 }, (_, n) =>
      gateway.get(`/areas?q=${n}`, n % 2 === 0 ? {} : { headers: NO_STORE }),
    );
    await gateway.admitted();
    for (let sent = 3; sent <= 12; sent++) {
      await gateway.sandbox.waitForRequests(sent);
      expect(gateway.sandbox.waiting()).toBeLessThanOrEqual(3);
      gateway.sandbox.release(1);
    }
    gateway.sandbox.release();
    for (const ask of asks) expect((await ask).status).toBe(200);
    expect(gateway.sandbox.requests()).toHaveLength(12);
  });
});

describe("an upstream that stalls", () => {
  it.each(["headers", "body"] as const)("(%s) holds a slot no longer than its timeout", async (hang) => {
    const clock = createFakeClock();
    const settings = "upstream: { headerTimeout: 3s, bodyTimeout: 3s, totalTimeout: 4s }";
    const gateway = await startGateway({
      clock,
      settings,
      sandbox: { now: clock.now },
      env: { BUDGET_CONCURRENCY: "2" },
    });
    gateway.sandbox.faults.add({ hang, times: 2 });
    const stalled = ["a", "b"].map((q) => gateway.get(`/areas?q=${q}`));
    // The limit on headers is armed at the connection; the one on the body as each piece of it comes.
    await clock.armed(3_000, hang === "headers" ? 2 : 6);
    await clock.advance(3_000);
    for (const reply of await Promise.all(stalled)) expect(problemCode(reply)).toBe("upstream-timeout");
    const after = await Promise.all(["a", "b", "c"].map((q) => gateway.get(`/areas?q=${q}`)));
    expect(after.map(({ status }) => status)).toEqual([200, 200, 200]);
  });
});
