import type { KnipConfig } from "knip";

const config: KnipConfig = {
  entry: [
    "src/{main,demo}.ts",
    "src/sandbox/main.ts",
    "src/platform/config-check.ts",
    "test/**/*.test.ts",
    "bench/hits-server.ts",
  ],
  project: ["{src,test,bench,tools}/**/*.{ts,mjs}"],
  // `npm test` sees to it that they are there.
  ignoreBinaries: ["redis-server", "redis-cli", "helm"],
};

export default config;
