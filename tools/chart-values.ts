/**
 * The JSON Schema of the chart's values. A value's type is that of its default in values.yaml, except where its name or its
 * path says more below.
 */
import { readFileSync } from "node:fs";

import { parse } from "yaml";
import * as z from "zod";

import { SETTINGS } from "../src/config/settings.ts";
import { isMapping } from "../src/config/yaml-file.ts";
import type { JsonSchema } from "./config-json-schema.ts";

const VALUES = new URL("../helm/property-gateway/values.yaml", import.meta.url);
const RULES_FILE = new URL("../deploy/prometheus/rules.yaml", import.meta.url);

const count = (min: number): z.ZodType => z.int().min(min);
const texts = (): z.ZodType => z.record(z.string(), z.string());
/** A part of Kubernetes' own API. The cluster checks it. */
const kubernetes = (): z.ZodType => z.record(z.string(), z.unknown());
/** A section: any of its values may be left out. */
const section = (shape: z.ZodRawShape): z.ZodType => z.strictObject(shape).partial();
const matching = (pattern: RegExp) => (): z.ZodType => z.string().regex(pattern);
const oneOf =
  (...words: string[]) =>
  (): z.ZodType =>
    z.enum(words);

const port = (): z.ZodInt => z.int().min(1).max(65_535);
const named = (): z.ZodType => z.array(z.looseObject({ name: z.string() }));
const strings = (): z.ZodArray<z.ZodString> => z.array(z.string());
const pullSecrets = (): z.ZodType => z.array(z.union([z.string(), z.looseObject({ name: z.string() })]));
const countOrPercent = (): z.ZodType => z.union([count(0), z.string().regex(/^[0-9]+%$/)]);
const nullableCount = (): z.ZodType => count(1).nullable();
const pullPolicy = oneOf("Always", "IfNotPresent", "Never");

/** Changes of the alerts in the rules, by their names. A threshold is a number before `# threshold`. */
function alertChanges(): z.ZodType {
  const { groups }: { groups: { rules: { alert?: string; expr: string }[] }[] } = parse(
    readFileSync(RULES_FILE, "utf8"),
  );
  const changes = groups
    .flatMap(({ rules }) => rules)
    .flatMap(({ alert, expr }) => {
      if (alert === undefined) return [];
      const threshold = z.number().min(0);
      const change = section({
        enabled: z.boolean(),
        severity: z.string().min(1),
        ...(expr.includes("# threshold") && { threshold }),
        for: span(),
        keep_firing_for: span(),
        expr: z.string(),
        labels: texts(),
        annotations: texts(),
      });
      return [[alert, change] as const];
    });
  return section(Object.fromEntries(changes));
}
/** A duration as Prometheus writes it. */
const span = matching(/^([0-9]+(ms|[smhdwy]))+$/);

/** Values that have more than a type, by the end of their path. */
const RULES: Readonly<Record<string, () => z.ZodType>> = {
  // A key in a Secret, as Kubernetes allows it. The secrets themselves may be any text: if the schema restricted their form,
  // Helm's error message would show them. Templates check them instead.
  existingSecretKey: matching(/^[-._a-zA-Z0-9]+$/),
  // A quantity of Kubernetes.
  size: matching(/^[0-9]+(\.[0-9]+)?([KMGT]i?)?$/),
  digest: matching(/^(sha256:[0-9a-f]{64})?$/),
  repository: () => z.string().min(1),
  pullPolicy,
  imagePullSecrets: pullSecrets,
  port,
  nodePort: () => port().nullable(),
  ports: () => z.array(port()),
  hostnames: strings,
  replicaCount: () => count(0),
  revisionHistoryLimit: () => count(0),
  minReadySeconds: () => count(0),
  terminationGracePeriodSeconds: nullableCount,
  reload: oneOf("watch", "restart"),
  dnsPolicy: oneOf("", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
  hostAliases: () => z.array(z.strictObject({ ip: z.string(), hostnames: strings() })),
  "ingress.hosts": () => {
    const pathType = z.enum(["Prefix", "Exact", "ImplementationSpecific"]);
    const paths = z.array(section({ path: z.string(), pathType })).optional();
    return z.array(z.strictObject({ host: z.string(), paths }));
  },
  parentRefs: named,
  extraEnv: named,
  extraVolumes: named,
  extraContainers: named,
  initContainers: named,
  extraObjects: () => z.array(z.union([kubernetes(), z.string()])),
  alerts: alertChanges,
  targetCPUUtilizationPercentage: nullableCount,
  targetMemoryUtilizationPercentage: nullableCount,
  "podDisruptionBudget.maxUnavailable": () => z.union([count(1), z.string().regex(/^[1-9][0-9]?%$/)]),
  strategy: () =>
    z
      .strictObject({
        type: z.enum(["RollingUpdate", "Recreate"]),
        rollingUpdate: section({ maxSurge: countOrPercent(), maxUnavailable: countOrPercent() }),
      })
      .partial(),
  // Open, because a parent chart passes its own global values on.
  global: () => z.looseObject({ imageRegistry: z.string(), imagePullSecrets: pullSecrets() }).partial(),
  resources: kubernetes,
  affinity: kubernetes,
  behavior: kubernetes,
  spec: kubernetes,
  endpoint: kubernetes,
  lifecycle: kubernetes,
  dnsConfig: kubernetes,
  startupProbe: kubernetes,
  livenessProbe: kubernetes,
  readinessProbe: kubernetes,
  podSecurityContext: kubernetes,
  securityContext: kubernetes,
};

/** @param value the default */
function shapeOf(path: string, value: unknown): z.ZodType {
  const names = path.split(".");
  const rule = RULES[names.slice(-2).join(".")] ?? RULES[names.at(-1) ?? ""];
  if (rule !== undefined) return rule();
  if (Array.isArray(value)) return z.array(kubernetes());
  if (typeof value === "boolean") return z.boolean();
  if (typeof value === "number") return count(1);
  if (!isMapping(value)) return z.string();
  const entries = Object.entries(value);
  if (entries.length === 0 || names.at(-1) === "labels") return texts();
  return section(Object.fromEntries(entries.map(([name, one]) => [name, shapeOf(`${path}.${name}`, one)])));
}

/**
 * The JSON Schema with which Helm checks the chart's values.
 * @param config the JSON Schema of the settings
 */
export function chartValuesSchema(config: JsonSchema): object {
  const { config: _config, ...defaults }: Readonly<Record<string, unknown>> = parse(
    readFileSync(VALUES, "utf8"),
  );
  const shape = section(
    Object.fromEntries(Object.entries(defaults).map(([name, one]) => [name, shapeOf(name, one)])),
  );
  const { properties } = z.toJSONSchema(shape, { io: "input", target: "draft-7" });
  const { $schema: _, title: __, ...settings } = structuredClone(config);
  for (const { path, secret, shape } of SETTINGS) {
    if (secret && !(shape instanceof z.ZodArray)) looseTextAt(settings, path);
  }
  return {
    // The newest version that Helm 3 supports.
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Values of the chart property-gateway",
    type: "object",
    additionalProperties: false,
    properties: { config: settings, ...properties },
  };
}

/** Removes the form of a secret from the schema; see RULES. */
function looseTextAt(schema: JsonSchema, [name = "", ...below]: readonly string[]): void {
  const part = schema.properties?.[name];
  if (!part || !schema.properties) throw new Error(`there is no ${name} in the JSON Schema`);
  if (below.length > 0) looseTextAt(part, below);
  else schema.properties[name] = { description: part.description ?? "", type: ["string", "null"] };
}
