import { readFileSync } from "node:fs";

import { expect, it } from "vitest";
import * as z from "zod";

import { SETTINGS } from "../../../src/config/settings.ts";
import { valueAt } from "../../../src/config/sources.ts";
import { readSettingsFile } from "../../../src/config/yaml-file.ts";
import { generatedFiles, inProject } from "../../../tools/generate.ts";
import { descriptionOf } from "../../../tools/setting-docs.ts";

it.each(await generatedFiles())("$path is what `npm run generate` writes", ({ path, content }) => {
  expect(readFileSync(inProject(path), "utf8")).toBe(content);
});

it("config/default.yaml has every setting with its default, and its variables", () => {
  const text = readFileSync(inProject("config/default.yaml"), "utf8");
  const { settings, problems } = readSettingsFile("default.yaml", "", () => text);
  expect(problems).toEqual([]);
  for (const { path, default: written = null } of SETTINGS) expect(valueAt(settings, path)).toEqual(written);
  const named = [...text.matchAll(/\b[A-Z]+(_[A-Z]+)*(?=[,)])/g)].map(([name]) => name);
  for (const { env = "", secretEnv = "" } of SETTINGS)
    for (const name of [env, secretEnv]) expect([...named, ""]).toContain(name);
});

it("there are at most 80 settings, because each one has to be understood", () => {
  expect(SETTINGS.length).toBeLessThanOrEqual(80);
});

it.each(SETTINGS)("$name has a description and an expectation", ({ shape, expected }) => {
  expect(descriptionOf(shape)).toMatch(/^\S.{10,}\.$/s);
  expect(expected).not.toBe("");
});

it.each(SETTINGS)("$name has a default that it accepts, or is required", ({ shape, ...setting }) => {
  const { required = false, default: written = null } = setting;
  expect(z.safeParse(shape, written).success).toBe(!required);
});
