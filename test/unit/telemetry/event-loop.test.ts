import { expect, it, onTestFinished, vi } from "vitest";

import { watchEventLoop } from "../../../src/telemetry/event-loop.ts";

/** Holds up the whole thread. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

it("the event loop delay is measured", async () => {
  const late = await new Promise<number>((resolve) => {
    const stop = watchEventLoop((delayMs) => {
      if (delayMs > 100) resolve(delayMs);
    });
    onTestFinished(stop);
    block(300);
  });
  // The timer was due at some time during the block; a timer may be a millisecond early.
  expect(late).toBeGreaterThan(200);
});

it("there is no delay on an idle loop, and no measurement after stop()", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const told: number[] = [];
  const stop = watchEventLoop((delayMs) => told.push(delayMs));
  vi.advanceTimersByTime(120);
  expect(told).toEqual([0, 0, 0]);
  stop();
  vi.advanceTimersByTime(1_000);
  expect(told).toHaveLength(3);
});
