import type { KnipConfig } from "knip";

const config: KnipConfig = {
  entry: [
    "src/{main,demo}.ts",
    "src/sandbox/main.ts",
    "src/platform/config-check.ts",
    "test/run.ts",
    "test/**/*.test.ts",
    "bench/run.ts",
    "tools/generate.ts",
  ],
  project: ["{src,test,bench,tools}/**/*.{ts,mjs}"],
  // `npm test` sees to it that they are there.
  ignoreBinaries: ["redis-server", "redis-cli"],
  // The runtime itself: npm puts its `node` on the path of every script.
  ignoreDependencies: [/^node-/],
};

export default config;
