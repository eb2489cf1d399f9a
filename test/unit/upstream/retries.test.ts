import type http from "node:http";

import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { RefuseLate, Throttled } from "../../../src/types.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { attempting, httpUpstream, LIMITS, LISTINGS, PAGE, PATIENT, rawUpstream } from "./support.ts";

const RETRY_DELAY_MS = 5_005;

function parameterOf(head: string | undefined, name: string): string | null {
  return new URL(head?.split(" ")[1] ?? "", "http://upstream.test").searchParams.get(name);
}

function answerIn(body: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

describe("a kept connection that the upstream has closed", () => {
  it("is one once only: a new connection that is reset too is not tried again", async () => {
    const url = await rawUpstream((socket, _head, number) => {
      if (number === 1) socket.write(answerIn(PAGE));
      else socket.resetAndDestroy();
    });
    const { attempt, watcher } = attempting({ baseUrl: url });
    await attempt(LISTINGS, PATIENT);
    await expect(attempt(LISTINGS, PATIENT)).rejects.toMatchObject({ code: "upstream-unreachable" });
    expect(watcher.calls.map((call) => call.status)).toEqual([200, "stale-connection", "reset"]);
  });

  it("is told from a new one that is reset, which is not tried again", async () => {
    const url = await rawUpstream((socket) => socket.resetAndDestroy());
    const { attempt, watcher } = attempting({ baseUrl: url });
    await expect(attempt(LISTINGS, PATIENT)).rejects.toMatchObject({ code: "upstream-unreachable" });
    expect(watcher.calls.map((call) => call.status)).toEqual(["reset"]);
  });
});

describe("the second attempt", () => {
  it("while it waits for its turn tells who gives up how the first one failed, as long as it waits", async () => {
    const url = await httpUpstream((_request, response) => {
      response.statusCode = 500;
      response.end();
    });
    const door = Promise.withResolvers<void>();
    const [refusal, told] = [new Problem("quota-exceeded"), Promise.withResolvers<RefuseLate>()];
    let isQueued = true;
    const throttled: Throttled = async (order, job) => {
      if (order.cause !== "retry") return await job(() => undefined);
      order.waiting.inQueue(() => (isQueued ? refusal : undefined));
      await door.promise;
      isQueued = false;
      return await job(() => undefined);
    };
    const { attempt } = attempting({ baseUrl: url, throttled });
    const waiting = { ...PATIENT, inQueue: told.resolve };
    const failed = attempt(LISTINGS, waiting).catch((error: unknown) => error);
    const refuseLate = await told.promise;
    const hasty = { app: "web", priority: "interactive" } as const;
    expect(refuseLate(hasty)).toMatchObject({ code: "upstream-error" });
    door.resolve();
    expect(await failed).toMatchObject({ code: "upstream-error" });
    expect(refuseLate(hasty)).toBeUndefined();
  });

  it("comes after the delay, and is signed then and not before", async () => {
    const heads: string[] = [];
    const url = await httpUpstream((request, response) => {
      heads.push(`GET ${request.url ?? ""}`);
      response.statusCode = heads.length === 1 ? 500 : 200;
      response.end(PAGE);
    });
    const clock = createFakeClock();
    const { attempt } = attempting({ baseUrl: url, clock, retryDelayMs: RETRY_DELAY_MS });
    const fetched = attempt(LISTINGS, PATIENT);
    // The test's random fraction is a half, and so is the delay's least.
    await clock.armed(RETRY_DELAY_MS);
    await clock.advance(RETRY_DELAY_MS - 1);
    expect(heads).toHaveLength(1);
    await clock.advance(1);
    expect((await fetched).status).toBe(200);
    const [first, second] = heads.map((head) => Number(parameterOf(head, "time")));
    expect((second ?? 0) - (first ?? 0)).toBe(5);
    expect(clock.pending).toBe(0);
  });

  it("waits its turn and pays as the first did", async () => {
    let paid = 0;
    const throttled: Throttled = (_order, job) => {
      paid += 1;
      return job(() => undefined);
    };
    const url = await httpUpstream((_request, response) => {
      response.statusCode = 503;
      response.end();
    });
    const { attempt } = attempting({ baseUrl: url, throttled });
    await expect(attempt(LISTINGS, PATIENT)).rejects.toMatchObject({ code: "upstream-unavailable" });
    expect(paid).toBe(2);
  });

  it("is not made where there is no place for it", async () => {
    let turns = 0;
    const throttled: Throttled = (_order, job) => {
      turns += 1;
      return turns === 1 ? job(() => undefined) : Promise.reject(new Problem("temporary-reduced-capacity"));
    };
    let requests = 0;
    const url = await httpUpstream((_request, response) => {
      requests += 1;
      response.statusCode = 500;
      response.end();
    });
    const { attempt } = attempting({ baseUrl: url, throttled });
    await expect(attempt(LISTINGS, PATIENT)).rejects.toMatchObject({ code: "upstream-error" });
    expect(requests).toBe(1);
  });
});

describe("the total timeout", () => {
  it("runs from the departure, not from the queue, and ends a trickle", async () => {
    const response = Promise.withResolvers<http.ServerResponse>();
    const url = await httpUpstream((_request, trickling) => {
      trickling.flushHeaders();
      response.resolve(trickling);
    });
    const clock = createFakeClock();
    const turn = Promise.withResolvers<void>();
    const throttled: Throttled = async (_order, job) => {
      await turn.promise;
      return await job(() => undefined);
    };
    const { attempt, watcher } = attempting({ baseUrl: url, clock, throttled });
    const failed = attempt(LISTINGS, PATIENT).catch((error: unknown) => error);
    await clock.advance(LIMITS.totalTimeoutMs);
    turn.resolve();

    const trickling = await response.promise;
    // 3 × (3003 - 1) ms, and then the rest.
    for (let pieces = 1; pieces <= 3; pieces++) {
      await clock.armed(LIMITS.bodyTimeoutMs, pieces);
      await clock.advance(LIMITS.bodyTimeoutMs - 1);
      trickling.write("x");
    }
    await clock.armed(LIMITS.bodyTimeoutMs, 4);
    await clock.advance(LIMITS.totalTimeoutMs - 3 * (LIMITS.bodyTimeoutMs - 1));
    expect(await failed).toMatchObject({ status: 504, code: "upstream-timeout" });
    expect(watcher.calls).toEqual([
      expect.objectContaining({ status: "total-timeout", durationMs: LIMITS.totalTimeoutMs }),
    ]);
    expect(clock.pending).toBe(0);
  });

  it("spans both attempts", async () => {
    let requests = 0;
    const url = await httpUpstream((_request, response) => {
      requests += 1;
      response.statusCode = 500;
      if (requests === 1) response.end();
    });
    const clock = createFakeClock();
    // So late that the second attempt cannot use up its header timeout.
    const retryDelayMs = LIMITS.totalTimeoutMs - 1_000;
    const { attempt, watcher } = attempting({ baseUrl: url, clock, retryDelayMs });
    const failed = attempt(LISTINGS, PATIENT).catch((error: unknown) => error);
    await clock.armed(retryDelayMs);
    await clock.advance(retryDelayMs);
    await clock.armed(LIMITS.headerTimeoutMs, 2);
    await clock.advance(1_000);
    expect(await failed).toMatchObject({ code: "upstream-timeout" });
    expect(watcher.calls.map((call) => call.status)).toEqual([500, "total-timeout"]);
  });
});

describe("refused credentials", () => {
  const refusing = (): Promise<string> =>
    httpUpstream((_request, response) => void response.writeHead(403).end());

  it("are looked at again, and tried once more where they are others by then", async () => {
    let version = 1;
    const credentials = { version: () => version, checkAgain: () => void version++ };
    const { attempt, watcher } = attempting({ baseUrl: await refusing(), credentials });
    await expect(attempt(LISTINGS, PATIENT)).rejects.toMatchObject({
      code: "upstream-authentication-failed",
    });
    expect(watcher.calls.map((call) => [call.cause, call.status])).toEqual([
      ["miss", 403],
      ["retry", 403],
    ]);
  });

  it("that are the same are tried no more, and reported", async () => {
    let looks = 0;
    const credentials = { version: () => 1, checkAgain: () => void looks++ };
    const { attempt, watcher } = attempting({ baseUrl: await refusing(), credentials });
    await expect(attempt(LISTINGS, PATIENT)).rejects.toMatchObject({
      code: "upstream-authentication-failed",
    });
    expect([looks, watcher.calls.length, watcher.errors.length]).toEqual([1, 1, 1]);
  });
});

describe("a condition", () => {
  const held = { etag: '"7"', lastModified: undefined };

  it.each([412, 431])(
    "that is refused (%i) is left out the next time, and not tried again at once",
    async (status) => {
      const answers = [status, 500, 500, 200, 304];
      const conditions: unknown[] = [];
      const baseUrl = await httpUpstream((request, response) => {
        conditions.push(request.headers["if-none-match"]);
        response.statusCode = answers.shift() ?? 200;
        response.end(response.statusCode === 304 ? undefined : PAGE);
      });
      const { attempt } = attempting({ baseUrl });
      const ends = [];
      const other = { ...LISTINGS, format: "v2" as const, held };
      for (const question of [{ ...LISTINGS, held }, { ...LISTINGS, held }, { ...LISTINGS, held }, other]) {
        ends.push(
          await attempt(question, PATIENT).then(
            ({ status: brought }) => brought,
            (error: unknown) => (error instanceof Problem ? error.code : error),
          ),
        );
      }
      // No call more at once; none with the condition until there was an answer; that of another format is another.
      expect(ends).toEqual(["upstream-invalid-response", "upstream-error", 200, 304]);
      expect(conditions).toEqual([held.etag, undefined, undefined, undefined, held.etag]);
      await attempt({ ...LISTINGS, held }, PATIENT);
      expect(conditions.at(-1)).toBe(held.etag);
    },
  );
});
