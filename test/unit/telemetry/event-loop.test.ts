import { expect, it, onTestFinished } from "vitest";

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
