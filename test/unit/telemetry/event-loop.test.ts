import { expect, it, onTestFinished } from "vitest";

import { watchEventLoop } from "../../../src/telemetry/event-loop.ts";

/** Holds up the whole thread. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

it("the event loop delay is measured, each time alone", async () => {
  const startedAt = performance.now();
  const delays = await new Promise<number[]>((resolve) => {
    const all: number[] = [];
    onTestFinished(watchEventLoop((delayMs) => all.push(delayMs) === 3 && resolve(all)));
    block(300);
  });
  // The timer was due at some time during the block; a timer may be a millisecond early.
  expect(delays[0]).toBeGreaterThan(200);
  expect(delays.reduce((sum, ms) => sum + ms)).toBeLessThan(performance.now() - startedAt);
});
