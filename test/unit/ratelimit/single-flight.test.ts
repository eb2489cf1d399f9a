import { describe, expect, it } from "vitest";

import { againAfter, oneAtATime } from "../../../src/ratelimit/single-flight.ts";

/** Work that ends when told, and counts. */
function createWork(): { work: () => Promise<void>; runs: () => number; end: (error?: Error) => void } {
  const doors: PromiseWithResolvers<void>[] = [];
  let ended = 0;
  return {
    work() {
      const door = Promise.withResolvers<void>();
      doors.push(door);
      return door.promise;
    },
    runs: () => doors.length,
    end(error) {
      const door = doors[ended++];
      if (error) door?.reject(error);
      else door?.resolve();
    },
  };
}

describe("work of which one at a time is enough", () => {
  it("is done once for all who ask while it is being done, and anew for those who ask later", async () => {
    const { work, runs, end } = createWork();
    const run = oneAtATime(work);
    const all = [run(), run(), run()];
    expect(runs()).toBe(1);
    end();
    await Promise.all(all);
    const later = run();
    expect(runs()).toBe(2);
    end();
    await later;
  });

  it("fails for all who asked, and can be done again after that", async () => {
    const { work, runs, end } = createWork();
    const run = oneAtATime(work);
    const all = [run(), run()];
    end(new Error("work"));
    for (const each of all) await expect(each).rejects.toThrow("work");
    const later = run();
    expect(runs()).toBe(2);
    end();
    await later;
  });
});

describe("work that is done once more for those who asked meanwhile", () => {
  it("is done once more for all of them together, and they wait for that", async () => {
    const { work, runs, end } = createWork();
    const run = againAfter(work);
    const first = run();
    let isOver = false;
    const meanwhile = Promise.all([run(), run(), run()]).then(() => (isOver = true));
    expect(runs()).toBe(1);
    end();
    await expect.poll(runs).toBe(2);
    expect(isOver).toBe(false);
    end();
    await Promise.all([first, meanwhile]);
    expect(runs()).toBe(2);
  });

  it("is done once where nobody asked meanwhile", async () => {
    const { work, runs, end } = createWork();
    const first = againAfter(work)();
    end();
    await first;
    expect(runs()).toBe(1);
  });

  it("can be done again after it has failed", async () => {
    const { work, runs, end } = createWork();
    const run = againAfter(work);
    const failing = run();
    end(new Error("work"));
    await expect(failing).rejects.toThrow("work");
    const later = run();
    expect(runs()).toBe(2);
    end();
    await later;
  });
});
