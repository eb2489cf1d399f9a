/**
 * `npm run sbom` writes sbom.cdx.json: the packages that run in production, as CycloneDX. The file is part of every
 * release. It contains no date and no serial number, so it changes only when a package does.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

import { formatted, inProject } from "./generate.ts";
import { productionPackages } from "./production-packages.ts";

export const SBOM = "sbom.cdx.json";

interface Sbom {
  readonly serialNumber?: string;
  readonly metadata: { readonly component: object; readonly [field: string]: unknown };
  readonly components: readonly { readonly "bom-ref": string }[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
  readonly [field: string]: unknown;
}

function sbom(): Sbom {
  // With --omit=dev, npm would also leave out production packages that a development package uses.
  const how = ["--sbom-format=cyclonedx", "--package-lock-only"];
  const { status, stdout, stderr } = spawnSync("npm", ["sbom", ...how], {
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(`npm sbom: ${stderr}`);
  const { serialNumber: _, ...written }: Sbom = JSON.parse(stdout);
  const { name, version } = project();
  const refs = new Set(productionPackages().map((one) => `${one.name}@${one.version}`));
  const isThere = (ref: string): boolean => refs.has(ref);
  const { lifecycles, component } = written.metadata;
  return {
    ...written,
    // npm takes the name from the folder.
    metadata: { lifecycles, component: { ...component, name } },
    components: written.components.filter((one) => isThere(one["bom-ref"])),
    dependencies: written.dependencies
      .filter(({ ref }) => isThere(ref) || ref === `${name}@${version}`)
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isThere) })),
  };
}

function project(): { name: string; version: string } {
  const manifest: { name: string; version: string } = JSON.parse(
    readFileSync(inProject("package.json"), "utf8"),
  );
  return manifest;
}

if (import.meta.main) {
  writeFileSync(inProject(SBOM), await formatted(SBOM, JSON.stringify(sbom())));
  process.stdout.write(`wrote ${SBOM}\n`);
}
