import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // Long tests (more seeds, more chaos) run by `npm run test:long`.
    include: process.env["TEST_LONG"] === undefined ? ["test/**/*.test.ts"] : ["test/**/*.long.ts"],
    // A test that hangs fails with its name; it does not block the build.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // How long a busy machine may need until another process reaches a state.
    expect: { poll: { timeout: 20_000 } },
    // The suite is measured on two cores.
    maxWorkers: 2,
  },
});
