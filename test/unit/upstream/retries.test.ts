import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { RefuseLate, Throttled } from "../../../src/ratelimit/call-facts.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { attempting, httpUpstream, LIMITS, LISTINGS, PAGE, NO_DEADLINE, rawUpstream } from "./support.ts";

const RETRY_DELAY_MS = 5_005;

it("a connection that the upstream has closed is replaced once: a reset of the new one is not retried", async () => {
  const url = await rawUpstream((socket, _head, number) => {
    if (number === 1) socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${PAGE.length}\r\n\r\n${PAGE}`);
    else socket.resetAndDestroy();
  });
  const { attempt, watcher } = attempting({ baseUrl: url });
  await attempt(LISTINGS, NO_DEADLINE);
  await expect(attempt(LISTINGS, NO_DEADLINE)).rejects.toMatchObject({ code: "upstream-unreachable" });
  expect(watcher.calls.map((call) => call.status)).toEqual([200, "stale-connection", "reset"]);
});

it.each(["end", "resetAndDestroy"] as const)("a 429 whose body is cut off stays one: %s", async (end) => {
  const head = "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 99\r\n\r\n";
  const baseUrl = await rawUpstream((socket) => socket.write(`${head}slow`, () => socket[end]()));
  const { attempt } = attempting({ baseUrl });
  await expect(attempt(LISTINGS, NO_DEADLINE)).rejects.toMatchObject({ details: { retryAfterSeconds: 7 } });
});

describe("the retry", () => {
  it("gives a caller whose deadline passes in its queue the problem of the first attempt", async () => {
    const url = await httpUpstream((response) => void response.writeHead(500).end());
    const door = Promise.withResolvers<void>();
    const [refusal, told] = [new Problem("quota-exceeded"), Promise.withResolvers<RefuseLate>()];
    let isQueued = true;
    const throttled: Throttled = async (order, job) => {
      if (order.cause !== "retry") return await job(() => undefined, {});
      order.waiting.inQueue(() => (isQueued ? refusal : undefined));
      await door.promise;
      isQueued = false;
      return await job(() => undefined, {});
    };
    const { attempt } = attempting({ baseUrl: url, throttled });
    const waiting = { ...NO_DEADLINE, inQueue: told.resolve };
    const failed = attempt(LISTINGS, waiting).catch((error: unknown) => error);
    const refuseLate = await told.promise;
    const hasty = { app: "web", priority: "interactive" } as const;
    expect(refuseLate(hasty)).toMatchObject({ code: "upstream-error" });
    door.resolve();
    expect(await failed).toMatchObject({ code: "upstream-error" });
    expect(refuseLate(hasty)).toBeUndefined();
  });

  it("is sent after the delay, and is signed then", async () => {
    const times: number[] = [];
    const url = await httpUpstream((response, nth) => {
      times.push(Number(/(?<=&time=)\d+/.exec(response.req.url ?? "")));
      response.writeHead(nth === 1 ? 500 : 200).end(PAGE);
    });
    const clock = createFakeClock();
    const { attempt } = attempting({ baseUrl: url, clock, retryDelayMs: RETRY_DELAY_MS });
    const fetched = attempt(LISTINGS, NO_DEADLINE);
    // The test's random fraction is a half, and so is the delay's least.
    await clock.armed(RETRY_DELAY_MS);
    await clock.advance(RETRY_DELAY_MS - 1);
    expect(times).toHaveLength(1);
    await clock.advance(1);
    expect((await fetched).status).toBe(200);
    const [first = 0] = times;
    expect(times).toEqual([first, first + 5]);
    expect(clock.pending).toBe(0);
  });

  it("is withdrawn at the total timeout while it waits for a permit", async () => {
    const url = await httpUpstream((response) => void response.writeHead(500).end());
    const clock = createFakeClock();
    const withdrawn = new Problem("temporary-reduced-capacity");
    const throttled: Throttled = async (order, job) => {
      if (order.cause !== "retry") return await job(() => undefined, {});
      const { abandoned } = order.waiting;
      return await new Promise((_resolve, reject) => {
        abandoned.addEventListener("abort", () => reject(withdrawn));
      });
    };
    const { attempt, watcher } = attempting({ baseUrl: url, clock, throttled, retryDelayMs: RETRY_DELAY_MS });
    const failed = attempt(LISTINGS, NO_DEADLINE).catch((error: unknown) => error);
    await clock.armed(RETRY_DELAY_MS);
    await clock.advance(LIMITS.totalTimeoutMs);
    expect(await failed).toMatchObject({ code: "upstream-error" });
    expect(watcher.calls.map((call) => call.status)).toEqual([500]);
  });
});

it("the total timeout includes both attempts", async () => {
  const url = await httpUpstream((response, nth) => {
    response.statusCode = 500;
    if (nth === 1) response.end();
  });
  const clock = createFakeClock();
  // So late that the second attempt cannot use up its header timeout.
  const retryDelayMs = LIMITS.totalTimeoutMs - 1_000;
  const { attempt, watcher } = attempting({ baseUrl: url, clock, retryDelayMs });
  const failed = attempt(LISTINGS, NO_DEADLINE).catch((error: unknown) => error);
  await clock.armed(retryDelayMs);
  await clock.advance(retryDelayMs);
  await clock.armed(LIMITS.headerTimeoutMs, 2);
  await clock.advance(1_000);
  expect(await failed).toMatchObject({ code: "upstream-timeout" });
  expect(watcher.calls.map((call) => call.status)).toEqual([500, "total-timeout"]);
});
