import { describe, expect, it } from "vitest";

import { createJobs, JobDropped } from "../../../src/process/jobs.ts";

const wanted = (): boolean => true;

/** Jobs that end when the test says so. */
function setup(): {
  readonly jobs: ReturnType<typeof createJobs<string>>;
  readonly run: (key: string, isWanted?: () => boolean) => Promise<string>;
  readonly started: string[];
  readonly end: (key: string) => void;
} {
  const jobs = createJobs<string>({ atOnce: 2, waiting: 1 });
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    jobs,
    started,
    end: (key) => ends.get(key)?.(),
    run: (key, isWanted = wanted) =>
      jobs.run(key, isWanted, async () => {
        started.push(key);
        await new Promise<void>((resolve) => void ends.set(key, resolve));
        return key.toUpperCase();
      }),
  };
}

describe("jobs", () => {
  it("run a few at a time, in order, and each once for all its callers", async () => {
    const { jobs, run, started, end } = setup();
    const results = ["a", "b", "c", "a", "c"].map((key) => run(key));
    expect(started).toEqual(["a", "b"]);
    expect(jobs.isFull()).toBe(true);
    end("b");
    expect(await results[1]).toBe("B");
    expect(started).toEqual(["a", "b", "c"]);
    expect(jobs.isFull()).toBe(false);
    end("a");
    end("c");
    expect(await Promise.all(results)).toEqual(["A", "B", "C", "A", "C"]);
  });

  it("are dropped if all their callers have gone when their turn comes", async () => {
    const { run, started, end } = setup();
    const first = [run("a"), run("b")];
    let hasHungUp = false;
    const gone = [run("c", () => !hasHungUp), run("c", () => !hasHungUp)];
    const shared = [run("d", () => !hasHungUp), run("d")];
    hasHungUp = true;
    end("a");
    for (const one of gone) await expect(one).rejects.toThrow(JobDropped);
    expect(started).toEqual(["a", "b", "d"]);
    end("b");
    end("d");
    expect(await Promise.all([...first, ...shared])).toEqual(["A", "B", "D", "D"]);
  });

  it("that failed run again when they are asked for again", async () => {
    const jobs = createJobs<string>({ atOnce: 1, waiting: 1 });
    const failing = jobs.run("a", wanted, () => Promise.reject(new Error("out of memory")));
    await expect(failing).rejects.toThrow("out of memory");
    expect(await jobs.run("a", wanted, async () => "A")).toBe("A");
  });
});
