import { describe, expect, it } from "vitest";

import type { Load } from "../../../src/cache/load.ts";
import { createRefresh, type Refresh } from "../../../src/cache/refresh.ts";
import { Problem } from "../../../src/errors.ts";
import { entryWith } from "../../support/entries.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";

const CACHED = entryWith("{}");
const LANDED: Awaited<ReturnType<Load>> = {
  value: { entry: CACHED, stored: true, tier: undefined },
  how: "fetched",
  collapsed: false,
};

type Wanted = Parameters<Load>[0];

interface Setup {
  readonly clock: FakeClock;
  readonly refresh: (app?: string, text?: string, cause?: "refresh" | "warm") => ReturnType<Refresh>;
  readonly wanted: readonly Wanted[];
  readonly errors: readonly string[];
}

function setup(load: () => ReturnType<Load>): Setup {
  const clock = createFakeClock();
  const wanted: Wanted[] = [];
  const errors: string[] = [];
  const refresh = createRefresh({
    load: (one) => {
      wanted.push(one);
      return load();
    },
    failures: { recent: () => undefined },
    totalTimeoutMs: 30_000,
    clock,
    observer: { error: (message) => void errors.push(message) },
  });
  return {
    clock,
    wanted,
    errors,
    refresh: (app = "web", text, cause = "refresh") =>
      refresh(questionWith(requestWith(clock.now(), { app }), text), CACHED, cause),
  };
}

const refused = (): ReturnType<Load> => Promise.reject(new Problem("temporary-reduced-capacity"));

describe("a refresh", () => {
  it("loads a newer answer with low priority, with a short queue deadline and none for the call", async () => {
    const { clock, refresh, wanted } = setup(async () => LANDED);
    expect(await refresh()).toBe("refreshed");
    expect(await refresh("web", undefined, "warm")).toBe("refreshed");
    const [queueDeadlineAt, deadlineAt] = [clock.now() + 2_000, clock.now() + 33_000];
    expect(wanted).toMatchObject([
      { cached: CACHED, cause: "refresh", waiter: { priority: "refresh", queueDeadlineAt, deadlineAt } },
      { cached: CACHED, cause: "warm", waiter: { priority: "prefetch", queueDeadlineAt, deadlineAt } },
    ]);
  });

  it("runs once at a time for each key", async () => {
    const landing = Promise.withResolvers<typeof LANDED>();
    const { refresh, wanted } = setup(() => landing.promise);
    const first = refresh();
    expect(await refresh()).toBe("skipped");
    expect(await refresh("other")).toBe("skipped");
    const elsewhere = refresh("web", "listings?areaId=1&offset=0");
    landing.resolve(LANDED);
    expect([await first, await elsewhere]).toEqual(["refreshed", "refreshed"]);
    expect(await refresh()).toBe("refreshed");
    expect(wanted).toHaveLength(3);
  });

  it("without a slot pauses the refreshes of its app, and does not count as a failure", async () => {
    const { clock, refresh, wanted } = setup(refused);
    expect([await refresh(), await refresh("web", "listings?areaId=1&offset=0")]).toEqual([
      "refused",
      "refused",
    ]);
    expect(wanted).toHaveLength(1);
    expect([await refresh("other"), await refresh("web", undefined, "warm")]).toEqual(["refused", "refused"]);
    expect(wanted).toHaveLength(3);
    await clock.advance(999);
    await refresh();
    expect(wanted).toHaveLength(3);
    await clock.advance(1);
    await refresh();
    expect(wanted).toHaveLength(4);
  });

  it("that fails does not stop refreshes of other keys", async () => {
    const { refresh, wanted, errors } = setup(() => Promise.reject(new Problem("upstream-error")));
    expect([await refresh(), await refresh()]).toEqual(["failed", "failed"]);
    expect([wanted.length, errors]).toEqual([2, []]);
  });

  it("that ends with an internal error is logged", async () => {
    const { refresh, errors } = setup(() => Promise.reject(new TypeError("a mistake")));
    expect(await refresh()).toBe("failed");
    expect(errors).toEqual([expect.stringContaining("bug in the gateway")]);
  });
});
