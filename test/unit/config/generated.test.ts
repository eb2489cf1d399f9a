import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import * as z from "zod";

import { DEFAULTS, SETTINGS } from "../../../src/config/schema.ts";
import { parseSettingsFile } from "../../../src/config/yaml-file.ts";
import { generatedFiles, inProject } from "../../../tools/generate.ts";

describe("generated files", async () => {
  it.each(await generatedFiles())("$path is what `npm run generate` writes", ({ path, content }) => {
    expect(readFileSync(inProject(path), "utf8")).toBe(content);
  });
});

describe("config/default.yaml", () => {
  const text = readFileSync(inProject("config/default.yaml"), "utf8");

  it("has exactly the existing settings with their defaults", () => {
    const { settings, problems } = parseSettingsFile("default.yaml", text);
    expect(problems).toEqual([]);
    expect(settings).toEqual(DEFAULTS);
  });

  it("names each environment variable", () => {
    const named = [...text.matchAll(/\(([A-Z_]+)\)$/gm)].map((match) => match[1]);
    expect(named).toEqual([...new Set(SETTINGS.flatMap(({ env }) => env ?? []))]);
  });
});

it.each(SETTINGS)("$name has a description and an expectation", ({ description = "", expected }) => {
  expect(description).toMatch(/^\S.{10,}\.$/s);
  expect(expected).not.toBe("");
});

it.each(SETTINGS)("$name has a default that it accepts, or is required", ({ shape, ...setting }) => {
  const { required = false, default: written = null } = setting;
  expect(z.safeParse(shape, written).success).toBe(!required);
});
