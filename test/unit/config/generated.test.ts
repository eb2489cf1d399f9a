import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import { isMap, isScalar, parseDocument } from "yaml";

import { settingsSchema } from "../../../src/config/config-schema.ts";
import { VARIABLES } from "../../../src/config/environment.ts";
import { settingsOf } from "../../../src/config/setting-check.ts";
import { metaOf } from "../../../src/config/setting-shapes.ts";
import { generatedFiles, inProject } from "../../../tools/generate.ts";
import { documentedSettings } from "../../../tools/settings-table.ts";

const defaults = readFileSync(inProject("config/default.yaml"), "utf8");
const settings = settingsOf(settingsSchema).map(({ path }) => path.join("."));

describe("generated files", async () => {
  it.each(await generatedFiles())("$path is what `npm run generate` writes", ({ path, content }) => {
    expect(readFileSync(inProject(path), "utf8")).toBe(content);
  });
});

describe("config/default.yaml", () => {
  it("holds every setting, and no other, in the order of the schema", () => {
    expect(keysOf(parseDocument(defaults).contents, [])).toEqual(settings);
  });

  it("says of each setting what it means", () => {
    const silent = documentedSettings(defaults).filter((setting) => setting.meaning.length < 10);
    expect(silent.map((setting) => setting.path.join("."))).toEqual([]);
  });

  it("names each setting's environment variable, and no other", () => {
    const named = [...defaults.matchAll(/^ *# .* \(([A-Z_]+)(?:, [^()]*)?\)$/gm)].map((match) => match[1]);
    const variables = documentedSettings(defaults).flatMap(({ variable }) => variable ?? []);
    expect(named).toEqual(variables);
    expect(new Set(variables)).toEqual(new Set(VARIABLES.map(({ name }) => name)));
  });
});

it("says of each setting what is expected", () => {
  expect(settingsOf(settingsSchema).filter(({ shape }) => !metaOf(shape)?.expected)).toEqual([]);
});

it("has a setting or a section for each environment variable", () => {
  for (const { path } of VARIABLES) {
    expect(settings.some((name) => `${name}.`.startsWith(`${path.join(".")}.`))).toBe(true);
  }
});

describe("docs/configuration.md", () => {
  const documentation = readFileSync(inProject("docs/configuration.md"), "utf8");

  it.each(documentedSettings(defaults))("has a row for $path", ({ path, variable, meaning }) => {
    const row = documentation.split("\n").find((line) => line.startsWith(`| \`${path.join(".")}\` |`));
    expect(row).toContain(variable ? `| \`${variable}\` |` : "|  |");
    expect(row).toContain(meaning);
  });
});

function keysOf(node: unknown, path: string[]): string[] {
  if (!isMap(node)) return [path.join(".")];
  return node.items.flatMap(({ key, value }) =>
    keysOf(value, [...path, isScalar(key) ? String(key.value) : "?"]),
  );
}
