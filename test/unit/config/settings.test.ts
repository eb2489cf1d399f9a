/** What the gateway makes of settings: settings.txt, and what a table cannot say. */
import { readFileSync } from "node:fs";
import { inspect } from "node:util";

import { expect, it } from "vitest";

import { settingWarnings } from "../../../src/config/combinations.ts";
import { examineConfig } from "../../../src/config/load.ts";
import { REMOVED } from "../../../src/config/settings/removed.ts";
import { report } from "../../../src/config/report.ts";
import { secretsIn } from "../../../src/config/secrets/secret.ts";
import { valueAt } from "../../../src/config/sources.ts";
import { createAuthority } from "../../support/certificates.ts";
import { load, MINIMAL, problemsOf } from "./config-fixture.ts";

const { cert, key } = createAuthority();
const TEXTS: Readonly<Record<string, string>> = {
  "{cert}": cert,
  "{key}": key,
  "{cut}": cert + cert.slice(0, 300),
};

/** A value in double quotes is JSON. */
function textOf(written: string): string {
  return written.startsWith('"') ? String(JSON.parse(written)) : (TEXTS[written] ?? written);
}

function caseOf(block: string) {
  const marked = (mark: string): string[] =>
    block.split("\n").flatMap((line) => (line.startsWith(mark) ? [line.slice(mark.length)] : []));
  const isMarked = /^(\$ |@ |-> |! |= |# |[A-Z][a-z].* )/;
  const yaml = block.split("\n").filter((line) => !isMarked.test(line));
  const given = marked("$ ");
  if (yaml.length + given.length + marked("= ").length === 0 || block.startsWith("  ")) return [];
  const env: Record<string, string> = { ...MINIMAL, ...(yaml.length > 0 && { CONFIG_FILE: "gateway.yaml" }) };
  for (const line of given) {
    const [, name = "", value] = /^(\w+)(?:=(.*))?$/.exec(line) ?? [];
    if (value === undefined) Reflect.deleteProperty(env, name);
    else env[name] = textOf(value);
  }
  const files = marked("@ ").map((line) => [
    line.split("=", 1)[0],
    textOf(line.slice(line.indexOf("=") + 1)),
  ]);
  return [
    {
      name: [...yaml, ...given].join(" ⏎ "),
      env,
      files: { "gateway.yaml": yaml.join("\n"), ...Object.fromEntries(files) },
      problems: marked("-> "),
      warnings: marked("! "),
      values: marked("= ").map((line): [string, string] => [
        line.split(" ", 1)[0] ?? "",
        line.slice(line.indexOf(" ") + 1),
      ]),
    },
  ];
}

const TABLE = readFileSync(new URL("settings.txt", import.meta.url), "utf8");

/** `…` stands for any text. */
function patternOf(line: string): RegExp {
  return new RegExp(`^${line.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`).replaceAll("…", ".*")}$`);
}

it.each(TABLE.split(/\n\n+/).flatMap(caseOf))("$name", ({ env, files, problems, warnings, values }) => {
  const matching = (lines: readonly string[]): unknown[] =>
    lines.map((line) => expect.stringMatching(patternOf(line)) as unknown);
  expect(problemsOf(env, files)).toEqual(matching(problems));
  if (problems.length > 0) return;
  const read = load(env, files);
  expect(settingWarnings(read)).toEqual(matching(warnings));
  const config: unknown = JSON.parse(JSON.stringify(read));
  for (const [path, json] of values)
    expect([path, valueAt(config, path.split("."))]).toEqual([path, JSON.parse(json)]);
});

it.each(REMOVED)("$path is refused with what to do instead, in file and environment", (removed) => {
  const { path, env, instead } = removed;
  const keys = path.split(".");
  const yaml = `{ ${keys.join(": { ")}: 1 ${"}".repeat(keys.length)}`;
  expect(problemsOf({ ...MINIMAL, CONFIG_FILE: "gateway.yaml" }, { "gateway.yaml": yaml })).toEqual([
    `gateway.yaml:1: ${path}: this setting no longer exists. ${instead}`,
  ]);
  if (env === undefined) return;
  expect(problemsOf({ ...MINIMAL, [env]: "1" })).toEqual([
    `environment variable ${env}: this setting no longer exists. ${instead}`,
  ]);
});

it.each(["from-file", "from-file\n", "from-file\r\n"])("the file %j holds the private key", (content) => {
  const { UPSTREAM_PRIVATE_KEY: _, ...rest } = MINIMAL;
  const config = load({ ...rest, UPSTREAM_PRIVATE_KEY_FILE: "/run/key" }, { "/run/key": content });
  expect(config.upstream.privateKey.reveal()).toBe("from-file");
});

it("no printed form of the configuration shows a secret", () => {
  const config = load({
    ...MINIMAL,
    ADMIN_TOKEN: "t0ken-of-operators",
    REDIS_URL: "redis://me:p%40ss@h",
  });
  expect(secretsIn(config).toSorted()).toEqual([
    "k3y-of-acme",
    "p%40ss",
    "redis://me:p%40ss@h",
    "t0ken-of-operators",
  ]);
  const shown = [
    JSON.stringify(config),
    inspect(config, { depth: Infinity, showHidden: true }),
    String(config.admin.token),
  ];
  expect(shown.join()).not.toMatch(/k3y-of-acme|t0ken|p%40ss/);
});

it("the report says where each setting is set, and shows no secret", () => {
  const yaml =
    "server: { port: 81 }\nupstream:\n  url: https://api.example.com\napps: [{ id: web }]\n" +
    "admin: { tokenFile: /t }\ncache:\n  negativeTtl: 2m\n";
  const env = { PORT: "82", CACHE_TTL: "sold=2h", REDIS_URL: "redis://:pw@h", CONFIG_FILE: "gateway.yaml" };
  const readFile = (path: string): string => (path === "/t" ? "t0ken-of-operators" : yaml);
  const lines = report(examineConfig({ env: { ...MINIMAL, ...env }, readFile }));
  expect(lines).toEqual(
    expect.arrayContaining([
      '  gateway.yaml:4: apps.web.id = "web"',
      '  gateway.yaml:5: admin.tokenFile = "/t"',
      '  gateway.yaml:7: cache.negativeTtl = "2m"',
      "  environment variable PORT: server.port = 82",
      "  environment variable REDIS_URL: redis.url = [secret]",
      '  environment variable CACHE_TTL: cache.ttl.sold = "2h"',
      "  environment variable UPSTREAM_PRIVATE_KEY = [secret]",
    ]),
  );
  expect(lines.join("\n")).not.toMatch(/server\.port = 81|t0ken|k3y|pw@/);
});
