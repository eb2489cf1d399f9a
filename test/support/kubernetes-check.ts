/** Checks manifests more strictly than a cluster: for wrong types, and for fields that a cluster would drop silently. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

import { Ajv2020, type AnySchemaObject, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";

import { type KUBERNETES_VERSIONS, kubernetesSchemas, customResourceModels } from "./tools.ts";

/** A resource as it is given to a cluster. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly [field: string]: unknown;
}

/** The package with the types of each group of custom resources. */
const MODELS: Readonly<Record<string, string>> = {
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator",
  "gateway.networking.k8s.io/v1": "@kubernetes-models/gateway-api",
};

type Version = (typeof KUBERNETES_VERSIONS)[number];
type Check = (manifest: Manifest) => string[];

const checks = new Map<Version, Check>();

/** Resources of Kubernetes itself, against one of its versions. @returns a line for each fault */
export function kubernetesCheck(version: Version): Check {
  // Compiling the schemas takes most of the time of a check.
  const check = checks.get(version) ?? createCheck(version);
  checks.set(version, check);
  return check;
}

function createCheck(version: Version): Check {
  const directory = kubernetesSchemas(version);
  const read = (name: string): AnySchemaObject => JSON.parse(readFileSync(join(directory, name), "utf8"));
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
  ajv.addSchema(read("_definitions.json"));
  const compiled = new Map<string, ValidateFunction>();
  return (manifest) => {
    const { apiVersion, kind } = manifest;
    const file = `${kind.toLowerCase()}-${apiVersion.replace(/^([^./]*)(\.[^/]*)?\//, "$1-")}.json`;
    if (!existsSync(join(directory, file))) return [`Kubernetes ${version} has no ${kind} of ${apiVersion}`];
    const validate = compiled.get(file) ?? ajv.compile(read(file));
    compiled.set(file, validate);
    return validate(manifest) ? [] : (validate.errors ?? []).map((error) => describe(manifest, error));
  };
}

function describe({ kind, metadata }: Manifest, { instancePath, message, params }: ErrorObject): string {
  return `${kind} ${metadata.name}: ${instancePath}: ${message} ${JSON.stringify(params)}`;
}

export const isCustom = (manifest: Manifest): boolean => manifest.apiVersion in MODELS;

/**
 * Custom resources, against their types. The compiler sees every unknown field and wrong type; the package's validators
 * also see a string of the wrong form, such as a duration.
 * @returns a line for each fault
 */
export async function customFaults(manifests: readonly Manifest[]): Promise<string[]> {
  return [...typeFaults(manifests), ...(await formFaults(manifests))];
}

function typeFaults(manifests: readonly Manifest[]): string[] {
  const directory = mkdtempSync(join(customResourceModels(), "check-"));
  try {
    const lines = manifests.map(
      (manifest, index) =>
        `export const m${index}: import(${JSON.stringify(moduleOf(manifest))}).I${manifest.kind} = ${JSON.stringify(manifest)};`,
    );
    writeFileSync(join(directory, "manifests.ts"), `${lines.join("\n")}\n`);
    const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");
    const how =
      "--ignoreConfig --noEmit --strict --skipLibCheck --target esnext --module esnext --moduleResolution bundler";
    const { stdout } = spawnSync(process.execPath, [tsc, ...how.split(" "), "--types", "", "manifests.ts"], {
      cwd: directory,
      encoding: "utf8",
    });
    return stdout.split("\n").filter((line) => line.includes("error TS"));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

async function formFaults(manifests: readonly Manifest[]): Promise<string[]> {
  const faults: string[] = [];
  for (const manifest of manifests) {
    const path = join(customResourceModels(), "node_modules", `${moduleOf(manifest)}.js`);
    const { [manifest.kind]: Model } = await import(pathToFileURL(path).href);
    try {
      new Model(manifest).validate();
    } catch (error) {
      faults.push(`${manifest.kind} ${manifest.metadata.name}: ${String(error)}`);
    }
  }
  return faults;
}

const moduleOf = ({ apiVersion, kind }: Manifest): string => `${MODELS[apiVersion]}/${apiVersion}/${kind}`;
