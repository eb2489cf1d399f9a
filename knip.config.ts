import type { KnipConfig } from "knip";

const config: KnipConfig = {
  project: ["{src,test,bench,tools}/**/*.{ts,mjs}"],
  // `npm test` sees to it that they are there.
  ignoreBinaries: ["redis-cli", "prometheus", "helm"],
};

export default config;
