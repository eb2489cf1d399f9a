import type { KnipConfig } from "knip";

const config: KnipConfig = {
  entry: [
    "src/start.mjs",
    "src/{main,demo,health-check}.ts",
    "src/sandbox/main.ts",
    "src/config-check.ts",
    "test/**/*.test.ts",
    "bench/hits-server.ts",
  ],
  project: ["{src,test,bench,tools}/**/*.{ts,mjs}"],
  // `npm test` sees to it that they are there.
  ignoreBinaries: ["redis-cli", "prometheus", "helm"],
};

export default config;
