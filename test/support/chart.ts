/** The chart, rendered by Helm itself, and its pods' surroundings without a cluster. */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { parse, parseAllDocuments } from "yaml";

import { isMapping } from "../../src/config/yaml-file.ts";
import { type Anything, temporaryDirectory } from "./files.ts";
import { helmCommand, type HelmMajor } from "./tools.ts";
import type { Manifest } from "./kubernetes-check.ts";

export const CHART = "helm/property-gateway";

/** Values, as a file of them would hold. */
export type Values = Readonly<Record<string, unknown>>;

/** The example values that come with the chart, by name. */
export const VALUE_FILES = readdirSync(join(CHART, "ci")).map((file) => file.replace("-values.yaml", ""));

export function valuesOf(name: string): Values {
  const values: Values = parse(readFileSync(join(CHART, `ci/${name}-values.yaml`), "utf8"));
  return values;
}

/** The fewest values, with others laid over them. */
export const minimalWith = (others: Values): Values => overlaid(valuesOf("minimal"), others);

export function overlaid(below: Values, above: Values): Values {
  const merged: Record<string, unknown> = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const under = merged[key];
    merged[key] = isMapping(under) && isMapping(value) ? overlaid(under, value) : value;
  }
  return merged;
}

/** Calls Helm with values over the chart's own. */
export function helm(args: readonly string[], values: Values, major: HelmMajor = 4) {
  const input = JSON.stringify(values);
  const { status, stdout, stderr, error } = spawnSync(helmCommand(major), [...args, "--values", "-"], {
    encoding: "utf8",
    input,
  });
  if (error) throw error;
  return { succeeded: status === 0, stdout, stderr };
}

const rendered = new Map<string, string>();

/** What an install would give to the cluster. The same values are rendered once. */
export function render(values: Values, major: HelmMajor = 4): Manifest[] {
  const key = `${major} ${JSON.stringify(values)}`;
  const text = rendered.get(key) ?? template(values, major);
  rendered.set(key, text);
  // A YAML key that is there twice is an error to this parser, though not to Helm.
  return parseAllDocuments(text).map((document) => {
    if (document.errors[0]) throw document.errors[0];
    const manifest: Manifest = document.toJS();
    return manifest;
  });
}

function template(values: Values, major: HelmMajor): string {
  const args = ["template", "gw", CHART, "--namespace", "apps"];
  const { succeeded, stdout, stderr } = helm(args, values, major);
  if (!succeeded) throw new Error(stderr);
  return stdout;
}

/** @returns why the values are refused; empty where they are not */
export function refusal(values: Values): string {
  const { succeeded, stderr } = helm(["template", "gw", CHART], values);
  return succeeded ? "" : stderr;
}

/** The resource of that kind and, where given, component; there must be one. */
export function find(manifests: readonly Manifest[], kind: string, component?: string): Anything {
  const found = manifests.filter(
    (manifest) =>
      manifest.kind === kind &&
      (component === undefined || manifest.metadata.labels["app.kubernetes.io/component"] === component),
  );
  if (found.length !== 1) throw new Error(`${found.length} of ${kind} ${component ?? ""}`);
  return found[0];
}

/** Secrets by name, each with its keys. */
type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

/**
 * The environment of the gateway's container, with the files it names on this machine's disk.
 * @param existing Secrets and ConfigMaps that the values refer to
 */
export function containerEnvironment(
  manifests: readonly Manifest[],
  existing: Secrets = {},
): Record<string, string> {
  const secrets = { ...existing, ...ownSecrets(manifests) };
  const { spec } = find(manifests, "Deployment", "gateway").spec.template;
  const [container] = spec.containers;
  const root = temporaryDirectory();
  const mounts: [path: string, directory: string][] = container.volumeMounts.map(
    ({ name, mountPath }: Anything) => {
      const directory = join(root, name);
      mkdirSync(directory);
      const volume = spec.volumes.find((each: Anything) => each.name === name);
      for (const [file, text] of Object.entries(filesOf(volume, manifests, secrets)))
        writeFileSync(join(directory, file), text);
      return [mountPath, directory];
    },
  );
  return Object.fromEntries(
    container.env.map(({ name, value, valueFrom }: Anything) => {
      const text = valueFrom ? secretValue(secrets, valueFrom.secretKeyRef) : value;
      const mount = mounts.find(([path]) => text === path || text.startsWith(`${path}/`));
      return [name, mount ? mount[1] + text.slice(mount[0].length) : text];
    }),
  );
}

/** The Secrets that the chart makes, decoded. */
export function ownSecrets(manifests: readonly Manifest[]): Record<string, Record<string, string>> {
  const secrets: Anything[] = manifests.filter(({ kind }) => kind === "Secret");
  return Object.fromEntries(
    secrets.map(({ metadata, data }) => [
      metadata.name,
      Object.fromEntries(
        Object.entries<string>(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]),
      ),
    ]),
  );
}

function filesOf(
  volume: Anything,
  manifests: readonly Manifest[],
  secrets: Secrets,
): Readonly<Record<string, string>> {
  if (volume.configMap) {
    const configMap: Anything = manifests.find(
      ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === volume.configMap.name,
    );
    return configMap?.data ?? secrets[volume.configMap.name];
  }
  const items: Anything[] = volume.secret?.items ?? [];
  return Object.fromEntries(
    items.map(({ key, path }) => [path, secretValue(secrets, { name: volume.secret.secretName, key })]),
  );
}

function secretValue(secrets: Secrets, { name, key }: { name: string; key: string }): string {
  const value = secrets[name]?.[key];
  if (value === undefined) throw new Error(`there is no key ${key} in a Secret ${name}`);
  return value;
}
