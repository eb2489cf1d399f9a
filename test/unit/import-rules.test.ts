import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

/** A file that breaks a rule, and a part of the expected message. */
const OFFENDERS: readonly [file: string, code: string, message: string][] = [
  ["src/query/a.ts", 'export * from "express";', "'express' import is restricted"],
  ["src/cache/a.ts", 'export * from "express";', "'express' import is restricted"],
  ["src/http/a.ts", 'export * from "bottleneck";', "'bottleneck' import is restricted"],
  ["src/ratelimit/a.ts", 'export * from "bottleneck";', "'bottleneck' import is restricted"],
  [
    "src/upstream/a.ts",
    'export * from "http-proxy-middleware";',
    "'http-proxy-middleware' import is restricted",
  ],
  ["src/http/b.ts", 'export * from "prom-client";', "'prom-client' import is restricted"],
  ["src/upstream/b.ts", 'export * from "pino";', "'pino' import is restricted"],
  ["src/telemetry/b.ts", 'export * from "@opentelemetry/api";', "'@opentelemetry/api' import is restricted"],
  ["src/singleflight/a.ts", 'export * from "lru-cache";', "'lru-cache' import is restricted"],
  ["src/cache/b.ts", 'export * from "ioredis";', "'ioredis' import is restricted"],
  ["src/cache/c.ts", 'export * from "node:sqlite";', "'node:sqlite' import is restricted"],
  ["src/http/c.ts", 'export * from "zod";', "'zod' import is restricted"],
  ["src/query/b.ts", 'export * from "node:fs";', "'node:fs' import is restricted"],
  ["src/interface/a.ts", 'export * from "node:http";', "'node:http' import is restricted"],
  ["src/cache/serve-or-fetch.ts", 'export * from "node:net";', "'node:net' import is restricted"],
  ["src/cache/ttl.ts", 'export * from "node:net";', "'node:net' import is restricted"],
  [
    "src/ratelimit/limits/window-log.ts",
    'export * from "node:timers";',
    "'node:timers' import is restricted",
  ],
  ["src/usage/rolling-maximum.ts", 'export * from "node:timers";', "'node:timers' import is restricted"],
  ["src/query/c.ts", 'export * from "../cache/cache.ts";', "'../cache/cache.ts' import is restricted"],
  ["src/interface/b.ts", 'export * from "../query/parse.ts";', "'../query/parse.ts' import is restricted"],
  ["src/cache/d.ts", 'export * from "../upstream/send.ts";', "'../upstream/send.ts' import is restricted"],
  ["src/pages/a.ts", 'export * from "../cache/cache.ts";', "'../cache/cache.ts' import is restricted"],
  ["src/pages/cut-page.ts", 'export * from "node:fs";', "'node:fs' import is restricted"],
  ["src/singleflight/c.ts", 'export * from "../cache/cache.ts";', "'../cache/cache.ts' import is restricted"],
  ["src/redis/a.ts", 'export * from "../query/key.ts";', "'../query/key.ts' import is restricted"],
  ["src/singleflight/b.ts", 'export * from "../http/admit.ts";', "'../http/admit.ts' import is restricted"],
  [
    "src/upstream/c.ts",
    'export * from "../ratelimit/calls.ts";',
    "'../ratelimit/calls.ts' import is restricted",
  ],
  ["src/http/d.ts", 'export * from "../cache/cache.ts";', "'../cache/cache.ts' import is restricted"],
  [
    "src/upstream/d.ts",
    'export type { Entry } from "../cache/entry.ts";',
    "'../cache/entry.ts' import is restricted",
  ],
  ["src/telemetry/a.ts", 'export * from "../http/admit.ts";', "'../http/admit.ts' import is restricted"],
  ["src/config/a.ts", 'export * from "../telemetry/log.ts";', "'../telemetry/log.ts' import is restricted"],
  ["src/sandbox/a.ts", 'export * from "../query/parse.ts";', "'../query/parse.ts' import is restricted"],
  ["src/http/e.ts", "export const home = process.env;", "node(no-process-env)"],
  ["src/http/f.ts", 'export { g } from "./g.ts"; export const f = 1;', "import(no-cycle)"],
  ["src/http/g.ts", 'export { f } from "./f.ts"; export const g = 1;', "import(no-cycle)"],
];

const ALLOWED: readonly [file: string, code: string][] = [
  ["src/http/ok.ts", 'export * from "express";'],
  ["src/ratelimit/calls.ts", 'export { default } from "bottleneck";'],
  ["src/upstream/pass-through.ts", 'export * from "http-proxy-middleware";'],
  ["src/telemetry/ok.ts", 'export * from "prom-client";'],
  ["src/cache/store/redis-ok.ts", 'export * from "ioredis";'],
  ["src/sqlite/database.ts", 'export * from "node:sqlite";'],
  ["src/pages/ok.ts", 'export * from "../query/key.ts";'],
  ["src/cache/ok.ts", 'export * from "../query/key.ts";'],
  ["src/cache/ok-types.ts", 'export type { Fetched } from "../upstream/verdict.ts";'],
  ["src/upstream/ok-events.ts", 'export { CAUSES } from "../telemetry/events.ts";'],
  ["src/config/env.ts", "export const environment = process.env;"],
];

describe("the import rules", () => {
  const tree = mkdtempSync(join(tmpdir(), "import-rules-"));
  const findings = new Map<string, string[]>();

  beforeAll(() => {
    for (const file of ["oxlint.config.ts", "package.json", "tsconfig.json"]) cpSync(file, join(tree, file));
    symlinkSync(join(process.cwd(), "node_modules"), join(tree, "node_modules"));
    for (const [file, code] of [...OFFENDERS, ...ALLOWED]) {
      mkdirSync(dirname(join(tree, file)), { recursive: true });
      writeFileSync(join(tree, file), `${code}\n`);
    }
    const { stdout } = spawnSync("node_modules/.bin/oxlint", ["--format=unix", "src"], {
      cwd: tree,
      encoding: "utf8",
    });
    for (const line of stdout.split("\n")) {
      const [, file = ""] = /^(?:\.\/)?(src\/[^:]+):/.exec(line) ?? [];
      findings.set(file, [...(findings.get(file) ?? []), line]);
    }
  });
  afterAll(() => rmSync(tree, { recursive: true }));

  it.each(OFFENDERS)("%s may not contain %s", (file, _code, message) => {
    expect((findings.get(file) ?? []).join("\n")).toContain(message);
  });

  it.each(ALLOWED)("%s may contain %s", (file) => {
    expect(findings.get(file) ?? []).toEqual([]);
  });
});
