import { defineConfig } from "vitest/config";

const { TEST_LONG } = process.env;
/** `npm run test:long` runs the long tests (more seeds, more chaos). */
const TESTS = `test/**/*.${TEST_LONG === undefined ? "test" : "long"}.ts`;
/** Tests that change what a whole process has: nock replaces the HTTP client. */
const ALONE = ["test/unit/upstream/answers.test.ts"];

export default defineConfig({
  test: {
    // A test that hangs fails with its name; it does not block the build.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // How long a busy machine may need until another process reaches a state.
    expect: { poll: { timeout: 20_000 } },
    // For two cores: a good part of the tests wait for another process or for Redis, and leave their core to two more.
    maxWorkers: 4,
    projects: [
      // A worker runs many files and loads the modules once: half the CPU time of a process for each file.
      { extends: true, test: { name: "shared", isolate: false, include: [TESTS], exclude: ALONE } },
      {
        extends: true,
        test: {
          name: "alone",
          isolate: true,
          include: TEST_LONG === undefined ? ALONE : [],
        },
      },
    ],
  },
});
