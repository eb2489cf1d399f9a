/** The README's example of `npm start`, and .env.example, hold every setting that has no default. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { command } from "../../support/command.ts";

const readme = readFileSync("README.md", "utf8");
const example = readFileSync(".env.example", "utf8");

/** The variables that a text assigns; comments do not count. */
function assignmentsIn(text: string): Record<string, string> {
  const lines = [...text.matchAll(/^([A-Z_]+)=(\S+)(?: \\)?$/gm)];
  return Object.fromEntries(lines.map(([, name = "", value = ""]) => [name, value]));
}

const VALID = { code: 0, output: expect.stringMatching(/^configuration is valid$/m) };

describe("the example of npm start in the README", () => {
  it("has the variables and values of .env.example", () => {
    expect(assignmentsIn(readme)).toEqual(assignmentsIn(example));
  });

  it("is accepted as settings", async () => {
    expect(await command(["config-check"], assignmentsIn(readme))).toEqual(VALID);
  });
});

it(".env.example names only existing variables, also in comments", async () => {
  const all = assignmentsIn(example.replaceAll(/^#(?=[A-Z_]+=)/gm, ""));
  const { CONFIG_FILE, ...others } = all;
  expect(CONFIG_FILE).toBe("gateway.yaml");
  expect(await command(["config-check"], others)).toEqual(VALID);
  expect(Object.keys(others).length).toBeGreaterThan(Object.keys(assignmentsIn(example)).length);
});

it("the README names the Node that the project pins", () => {
  const { optionalDependencies }: { optionalDependencies: Record<string, string> } = JSON.parse(
    readFileSync("package.json", "utf8"),
  );
  const [, named] = /also installs Node (\d+\.\d+)/.exec(readme) ?? [];
  const nodes = Object.entries(optionalDependencies).filter(([name]) => name.startsWith("node-"));
  expect(nodes.length).toBeGreaterThan(1);
  for (const [, version] of nodes) expect(version).toMatch(`${named}.`);
});

it("the README is short: fewer than 900 words", () => {
  expect(readme.split(/\s+/).length).toBeLessThan(900);
});
