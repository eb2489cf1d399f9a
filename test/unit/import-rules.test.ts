import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

/** Files, and what each may not import. */
const RESTRICTED = `
  src/query/a.ts express
  src/ratelimit/a.ts bottleneck
  src/upstream/a.ts http-proxy-middleware
  src/http/b.ts prom-client
  src/upstream/b.ts pino
  src/telemetry/b.ts @opentelemetry/api
  src/singleflight/a.ts lru-cache
  src/cache/b.ts ioredis
  src/cache/c.ts node:sqlite
  src/http/c.ts zod
  src/query/b.ts node:fs
  src/interface/a.ts node:http
  src/cache/serve-or-fetch.ts node:net
  src/usage/rolling-maximum.ts node:timers
  src/query/c.ts ../cache/cache.ts
  src/interface/b.ts ../query/parse.ts
  src/cache/d.ts ../upstream/send.ts
  src/pages/a.ts ../cache/cache.ts
  src/pages/cut-page.ts node:fs
  src/redis/a.ts ../query/key.ts
  src/singleflight/b.ts ../http/admit.ts
  src/upstream/c.ts ../ratelimit/calls.ts
  src/http/d.ts ../cache/cache.ts
  src/telemetry/a.ts ../http/admit.ts
  src/config/a.ts ../telemetry/log.ts
  src/sandbox/a.ts ../query/parse.ts`;

/** A file that breaks a rule, and a part of the expected message. */
const OFFENDERS: readonly [file: string, code: string, message: string][] = [
  ...[...RESTRICTED.matchAll(/(\S+) (\S+)$/gm)].map(([, file = "", name = ""]): [string, string, string] => [
    file,
    `export * from "${name}";`,
    `'${name}' import is restricted`,
  ]),
  [
    "src/upstream/d.ts",
    'export type { Entry } from "../cache/entry.ts";',
    "'../cache/entry.ts' import is restricted",
  ],
  ["src/http/e.ts", "export const home = process.env;", "node(no-process-env)"],
  ["src/http/f.ts", 'export { g } from "./g.ts"; export const f = 1;', "import(no-cycle)"],
  ["src/http/g.ts", 'export { f } from "./f.ts"; export const g = 1;', "import(no-cycle)"],
];

const tree = mkdtempSync(join(tmpdir(), "import-rules-"));
const findings = new Map<string, string[]>();

beforeAll(() => {
  for (const file of ["oxlint.config.ts", "package.json", "tsconfig.json"]) cpSync(file, join(tree, file));
  symlinkSync(join(process.cwd(), "node_modules"), join(tree, "node_modules"));
  for (const [file, code] of OFFENDERS) {
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

it.each(OFFENDERS)("import rules: %s may not contain %s", (file, _code, message) => {
  expect((findings.get(file) ?? []).join("\n")).toContain(message);
});
