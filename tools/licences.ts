import { productionPackages } from "./production-packages.ts";

const INTRODUCTION = `# Licences

<!-- Written by \`npm run generate\` from package-lock.json. -->

The licences of all packages that run in production, as each package states it. The image contains these packages, but not
the optional ones: these are the pinned Node, which the base image contains. \`sbom.cdx.json\` lists the same packages as a
software bill of materials, with their checksums ([delivery.md](delivery.md#releases)).
`;

/** @returns the text of docs/licences.md */
export function licences(): string {
  const packages = productionPackages();
  const counts = new Map<string, number>();
  for (const { licence } of packages) counts.set(licence, (counts.get(licence) ?? 0) + 1);
  const summary = [...counts]
    .toSorted((a, b) => b[1] - a[1])
    .map(([licence, count]) => `${licence}: ${count}`)
    .join(", ");
  return [
    INTRODUCTION,
    `${packages.length} packages. ${summary}.`,
    "",
    "| Package | Version | Licence | |",
    "| --- | --- | --- | --- |",
    ...packages.map(
      ({ name, version, licence, isOptional }) =>
        `| ${name} | ${version} | ${licence} | ${isOptional ? "optional" : ""} |`,
    ),
    "",
  ].join("\n");
}
