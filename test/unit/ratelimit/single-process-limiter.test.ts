import { describe, expect, it } from "vitest";

import type { LimiterConfig, Permit } from "../../../src/ratelimit/limiter.ts";
import { SingleProcessLimiter } from "../../../src/ratelimit/limits/single-process-limiter.ts";
import { createMemoryLedger } from "../../../src/usage/sqlite-ledger.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { REQUEST } from "../../support/limiters.ts";

const config: LimiterConfig = {
  windows: [{ name: "1m", limit: 3, windowMs: 60_000 }],
  perDay: new Map(),
  arrivalMs: 1_000,
};

function setUp() {
  const clock = createFakeClock();
  const ledger = createMemoryLedger({ retentionMs: 1e9, maxRecords: 1_000, clock });
  const create = (process: string) =>
    new SingleProcessLimiter({ origin: "api", config, ledger, clock, process });
  return { clock, create, limiter: create("one") };
}

async function permit(limiter: SingleProcessLimiter): Promise<Permit> {
  const acquired = await limiter.acquire(REQUEST);
  if (acquired.kind === "wait") throw new Error(acquired.reason);
  return acquired.permit;
}

describe("the limiter of a process without Redis", () => {
  it("returns when the next permit is free: a window after the first call arrived", async () => {
    const { clock, limiter } = setUp();
    const first = await permit(limiter);
    await clock.advance(100);
    limiter.complete(first, { status: 200, durationMs: 100, arrivedAfterMs: 40 });
    await permit(limiter);
    await permit(limiter);
    const arrivedAt = clock.monotonic() - 60;
    expect(await limiter.acquire(REQUEST)).toEqual({ kind: "wait", reason: "budget" });
    expect(limiter.state().windows[0]?.freeAt[0]).toBe(arrivedAt + 60_001);
    await clock.advance(60_001 - 60);
    await permit(limiter);
    expect(limiter.state().windows[0]).toMatchObject({ spent: 3, remaining: 0 });
  });

  it("counts earlier calls after a restart, from the latest possible arrival if the process was killed", async () => {
    const { clock, create, limiter } = setUp();
    await permit(limiter);
    await permit(limiter);
    limiter.release(await permit(limiter));
    expect(limiter.state().windows[0]).toMatchObject({ spent: 2 });
    await clock.advance(10);
    const next = create("two");
    await permit(next);
    expect(await next.acquire(REQUEST)).toMatchObject({ kind: "wait", reason: "budget" });
    // The two calls of the killed process count until a window after their latest possible arrival.
    await clock.advance(60_000);
    expect(next.state().windows[0]).toMatchObject({ spent: 3 });
    await clock.advance(1_000);
    expect(next.state().windows[0]).toMatchObject({ spent: 0 });
  });
});
