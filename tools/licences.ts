import { type ProductionPackage, productionPackages } from "./production-packages.ts";

const INTRODUCTION = `# Licences

<!-- Written by \`npm run generate\` from package-lock.json. -->

The licences of the packages that run in production, as each package states it. \`sbom.cdx.json\` lists all of them, with version
and checksum. The optional ones are the pinned Node, which the image has from its base image, and OpenTelemetry, for tracing.
`;

/** @returns the text of docs/internals/licences.md */
export function licences(): string {
  const packages = productionPackages();
  const byLicence = Map.groupBy(packages, ({ licence }) => licence);
  const sections = [...byLicence]
    .toSorted(([, a], [, b]) => b.length - a.length)
    .map(
      ([licence, of]) =>
        `- ${licence}: ${licence === "MIT" ? `${of.length} packages` : of.map(named).join(", ")}`,
    );
  return [INTRODUCTION, ...sections, ""].join("\n");
}

function named({ name, version, isOptional }: ProductionPackage): string {
  return `${name}@${version}${isOptional ? " (optional)" : ""}`;
}
