import { expect, it } from "vitest";

import { createJobs } from "../../../src/process/jobs.ts";

it("a job that failed runs again when it is asked for again", async () => {
  const jobs = createJobs<string>(1);
  const isWanted = (): boolean => true;
  const fail = (): Promise<string> => Promise.reject(new Error("out of memory"));
  await expect(jobs.run("a", isWanted, fail)).rejects.toThrow("out of memory");
  expect(await jobs.run("a", isWanted, async () => "A")).toBe("A");
});
