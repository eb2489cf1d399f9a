/** Callers whose deadline passes while their call is in the queue: nothing is sent, and they get the reason. */
import { describe, expect, it } from "vitest";

import type { Reply } from "../support/ask.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

const APPS = "apps: [{ id: web, weight: 2 }, { id: nightly, priority: background }]";
const NO_STORE = { "cache-control": "no-store" };
/** The upstream may be slow: the callers' deadline passes first. */
const LONG_TIMEOUTS =
  "upstream: { connectTimeout: 1h, headerTimeout: 1h, bodyTimeout: 1h, totalTimeout: 1h }";

type Headers = Readonly<Record<string, string>>;

interface Timed {
  readonly gateway: TestGateway;
  readonly clock: FakeClock;
}

/** A gateway with a fake clock. */
async function startTimed(env: Readonly<Record<string, string>>, settings = ""): Promise<Timed> {
  const clock = createFakeClock();
  const gateway = await startGateway({
    settings: [LONG_TIMEOUTS, APPS, settings].join("\n"),
    clock,
    random: { fraction: () => 0 },
    sandbox: { now: clock.now },
    env,
  });
  return { gateway, clock };
}

const as = (app: string, headers: Headers = {}): { headers: Headers } => ({
  headers: { "x-app-id": app, ...headers },
});

/** What a late caller gets, after checking that the headers mention no upstream call. */
function refusalIn(reply: Reply): [number, string, string | undefined] {
  const code = problemCode(reply);
  expect(reply.headers["cache-status"]).toBe(`property-gateway; detail=${code}`);
  return [reply.status, code, reply.headers["retry-after"]];
}

describe("a caller whose permit goes to a more urgent one", () => {
  it("soon gets a refusal with Retry-After, and no call is made for it", async () => {
    const { gateway, clock } = await startTimed({ BUDGET: "1/20s" });
    expect((await gateway.get("/areas?q=first", as("web"))).status).toBe(200);
    await clock.advance(12_000);
    // Predicted to wait 8 of their 10 seconds.
    const hangUp = new AbortController();
    const gone = gateway.get("/areas?q=late", { ...as("nightly"), signal: hangUp.signal });
    const late = [1, 2, 3].map(() => gateway.get("/areas?q=late", as("nightly")));
    await clock.armed(8_001);
    await gateway.admitted();
    hangUp.abort();
    await expect(gone).rejects.toThrow();
    await gateway.logged('"outcome":"abandoned"');
    const urgent = gateway.get("/areas?q=urgent", as("web"));
    await gateway.admitted();
    await clock.advance(2_000);
    // Its turn would come a window after that of the other one, in 28 seconds.
    for (const reply of late)
      expect(refusalIn(await reply)).toEqual([503, "temporary-reduced-capacity", "28"]);
    expect(await gateway.metric('gateway_refused_total{app="nightly",reason="budget"}')).toBe(1);
    expect(await gateway.metric('gateway_refused_total{app="web",reason="budget"}')).toBe(0);
    await clock.advance(6_001);
    expect((await urgent).status).toBe(200);
    expect(gateway.sandbox.requests().map(({ query }) => query)).toEqual(["q=first", "q=urgent"]);
    // The time was honest.
    await clock.advance(21_000);
    expect((await gateway.get("/areas?q=late", as("nightly"))).status).toBe(200);
  });

  it("gets the stale answer instead of the refusal if there is one", async () => {
    const { gateway, clock } = await startTimed(
      { BUDGET: "1/20s" },
      "cache: { ttl: { areas: 5s }, staleWhileRevalidate: { areas: 0s }, maxWaitForFresh: 9s }",
    );
    expect((await gateway.get("/areas?q=old", as("web"))).status).toBe(200);
    await clock.advance(14_000);
    const late = gateway.get("/areas?q=old", as("nightly"));
    await clock.armed(6_001);
    const urgent = gateway.get("/areas?q=urgent", as("web"));
    await gateway.admitted();
    await clock.advance(6_001);
    expect((await urgent).status).toBe(200);
    await clock.advance(2_999);
    expect((await late).status).toBe(200);
    expect(cacheStatus(await late)).toMatchObject({ hit: true, detail: "temporary-reduced-capacity" });
  });
});

describe("callers of one queued call", () => {
  it("have their own deadlines: a late one gets the reason by its own share, the other one is answered", async () => {
    const { gateway, clock } = await startTimed({ BUDGET: "8/12s" });
    for (let q = 1; q <= 7; q++) await gateway.get(`/areas?q=${q}`, as("web"));
    await gateway.get("/areas?q=8");
    await clock.advance(5_000);
    const patient = gateway.get("/areas?q=asked", as("web"));
    await clock.armed(7_001);
    const hasty = { "x-request-deadline-ms": "2000" };
    const late = [as("web", hasty), { headers: hasty }, { headers: { prefer: "wait=2" } }].map((options) =>
      gateway.get("/areas?q=asked", options),
    );
    await gateway.admitted();
    await clock.advance(2_000);
    const [ofWeb, ofOther, preferring] = await Promise.all(late);
    expect(ofWeb && refusalIn(ofWeb)).toEqual([429, "quota-exceeded", "6"]);
    for (const reply of [ofOther, preferring])
      expect(reply && refusalIn(reply)).toEqual([503, "temporary-reduced-capacity", "6"]);
    expect(preferring?.headers["preference-applied"]).toBe("wait=2");
    expect(await gateway.metric('gateway_refused_total{app="web",reason="deadline"}')).toBe(1);
    expect(await gateway.metric('gateway_refused_total{app="other",reason="deadline"}')).toBe(2);
    await clock.advance(5_001);
    expect((await patient).status).toBe(200);
    expect(gateway.sandbox.requests()).toHaveLength(9);
  });
});

describe("a queue behind an upstream that does not answer", () => {
  it("tells its callers that nothing was sent for them, and the first ones that a call was sent", async () => {
    const { gateway, clock } = await startTimed({ BUDGET_CONCURRENCY: "2" });
    gateway.sandbox.hold();
    const sent = ["a", "b"].map((q) => gateway.get(`/areas?q=${q}`, as("web")));
    await gateway.sandbox.waitForRequests(2);
    const collapsed = gateway.get("/areas?q=a", as("nightly"));
    const queued = Array.from({ length: 20 }, (_, n) =>
      gateway.get(`/areas?q=${n % 7}`, n % 3 === 2 ? as("web", NO_STORE) : as("web")),
    );
    await gateway.admitted();
    // A stream goes by the queue's own timer, which is a millisecond later.
    await clock.advance(10_001);
    for (const reply of [...(await Promise.all(sent)), await collapsed]) {
      expect([reply.status, problemCode(reply)]).toEqual([504, "deadline-exceeded"]);
      expect(cacheStatus(reply)).toMatchObject({ fwd: "miss" });
    }
    for (const reply of queued) {
      expect(refusalIn(await reply)).toEqual([503, "temporary-reduced-capacity", "1"]);
      expect((await reply).json()).toMatchObject({ detail: expect.stringContaining("Nothing was sent") });
    }
    expect(await gateway.metric('gateway_refused_total{app="web",reason="deadline"}')).toBe(20);
    expect(await gateway.metric('gateway_refused_total{app="nightly",reason="deadline"}')).toBe(0);
    gateway.sandbox.release();
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    expect((await gateway.get("/areas?q=next")).status).toBe(200);
    expect(gateway.sandbox.requests()).toHaveLength(3);
  });
});
