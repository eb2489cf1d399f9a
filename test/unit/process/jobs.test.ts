import { expect, it } from "vitest";

import { Jobs } from "../../../src/process/jobs.ts";

it("a job that failed runs again when it is asked for again", async () => {
  const jobs = new Jobs<string>(1);
  const failing = jobs.run(
    "a",
    () => true,
    () => Promise.reject(new Error("out of memory")),
  );
  await expect(failing).rejects.toThrow("out of memory");
  const again = jobs.run(
    "a",
    () => true,
    async () => "A",
  );
  expect(await again).toBe("A");
});
