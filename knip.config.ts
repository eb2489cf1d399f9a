import type { KnipConfig } from "knip";

const config: KnipConfig = {
  entry: [
    "src/main.ts",
    "src/cli/*.ts",
    "test/**/*.{test,long,suite}.ts",
    "bench/hits-server.ts",
    "bench/peers/origin.ts",
  ],
  project: ["{src,test,bench,tools}/**/*.{ts,mjs}"],
  // pino loads it by its name.
  ignoreDependencies: ["pino-pretty"],
  // `npm test` sees to it that the first ones are there. `mount` and `umount` are used where they are permitted. Every Linux has
  // `script` and `mkfifo`.
  ignoreBinaries: ["script", "mkfifo", "redis-cli", "mount", "umount", "nginx"],
};

export default config;
