import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const { TEST_LONG } = process.env;
/** `npm run test:long` runs the long tests (more seeds, more chaos). */
const TESTS = `test/**/*.${TEST_LONG === undefined ? "test" : "long"}.ts`;
/** Tests that change what a whole process has: nock replaces the HTTP client, and a mock replaces `node:zlib`. */
const ALONE = ["test/unit/upstream/answers.test.ts", "test/unit/pages/page-entries.test.ts"];

/** Files that wait long: for Redis, for windows to pass, for other processes. Those of the first row wait longest. */
const LONGEST = [
  /faults\/(ratelimit|life|restarts|replicas|redis-topologies)|budget|processes|browser\/|stories|helm\.test|pipelined|fairness\/scenes/,
  /\/(faults|simulation|delivery)\/|scenario\/(lifetimes|outages|tracing|conformance|clients|pages)|property\/hostile/,
];

/** Starts the longest files first, so that no core is idle at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number =>
      LONGEST.findIndex((pattern) => pattern.test(moduleId)) >>> 0;
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    // A test that hangs fails with its name; it does not block the build.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // How long a busy machine may need until another process reaches a state.
    expect: { poll: { timeout: 20_000 } },
    // For two cores: most long tests wait for another process or for Redis, and leave their core to others.
    maxWorkers: 7,
    sequence: { sequencer: LongestFirst },
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
