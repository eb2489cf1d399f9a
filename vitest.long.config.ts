import { defineConfig } from "vitest/config";

/** `npm run test:long`: what takes the better part of an hour. */
export default defineConfig({ test: { include: ["test/**/*.long.ts"], maxWorkers: 2 } });
