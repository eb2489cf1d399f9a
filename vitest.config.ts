import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // A test that hangs is a failure with a name, not a stuck build.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Waiting for another process' state: as long as a busy machine may need.
    expect: { poll: { timeout: 20_000 } },
    // Two cores: what runs beside a scenario must leave it one.
    maxWorkers: 2,
  },
});
