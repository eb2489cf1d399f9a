import type { KnipConfig } from "knip";

const config: KnipConfig = {
  entry: ["src/main.ts", "src/cli/*.ts", "test/**/*.{test,long}.ts", "bench/hits-server.ts"],
  project: ["{src,test,bench,tools}/**/*.{ts,mjs}"],
  // `npm test` sees to it that they are there.
  ignoreBinaries: ["redis-cli", "prometheus", "helm"],
};

export default config;
