import * as z from "zod";

import { SETTINGS } from "../src/config/schema.ts";
import { type JsonSchema } from "./config-json-schema.ts";

/** What may stand in the chart's values, besides `config`. Defaults and meanings are in its values.yaml. */

const name = (): z.ZodType => z.string();
const count = (min: number): z.ZodType => z.int().min(min);
const port = (): z.ZodType => z.int().min(1).max(65_535);
const texts = (): z.ZodType => z.record(z.string(), z.string());
/** A part of Kubernetes' own API: its schema is the cluster's affair. */
const kubernetes = (): z.ZodType => z.record(z.string(), z.unknown());
const kubernetesList = (): z.ZodType => z.array(kubernetes());

/** Any text: Helm would show one that is not of the expected form. The templates see to that, and do not. */
const secretText = (): z.ZodType => z.string();
/** A key in a Secret, as Kubernetes allows it. */
const secretKey = (): z.ZodType => z.string().regex(/^[-._a-zA-Z0-9]+$/);
const secret = (): z.ZodType =>
  z.strictObject({ existingSecret: name(), existingSecretKey: secretKey(), value: secretText() }).partial();
/** An amount of memory or storage. */
const quantity = (): z.ZodType => z.string().regex(/^[0-9]+(\.[0-9]+)?([KMGT]i?)?$/);
const persistence = { enabled: z.boolean(), size: quantity(), storageClass: name() };
const pullPolicy = (): z.ZodType => z.enum(["Always", "IfNotPresent", "Never"]);
const peers = (): z.ZodType => z.strictObject({ from: kubernetesList() }).partial();
const destination = (): z.ZodType =>
  z.strictObject({ to: kubernetesList(), ports: z.array(port()) }).partial();
/** As Prometheus writes it. */
const span = (): z.ZodType => z.string().regex(/^([0-9]+(ms|[smhdwy]))+$/);

const trial = z.strictObject({
  enabled: z.boolean(),
  image: name(),
  imagePullPolicy: pullPolicy(),
  password: secretText(),
  maxMemory: z.string().regex(/^[1-9][0-9]*(kb|mb|gb)$/),
  resources: kubernetes(),
  persistence: z.strictObject(persistence).partial(),
});

const redis = z.strictObject({
  existingSecret: name(),
  existingSecretKey: secretKey(),
  url: secretText(),
  trial: trial.partial(),
});

const warmUrl = z
  .strictObject({ every: z.string(), app: z.string(), format: z.enum(["json", "v2"]) })
  .partial()
  .extend({ url: z.string().startsWith("/") });

const values = z.strictObject({
  warmUrls: z.array(warmUrl),
  privateKey: secret(),
  adminToken: secret(),
  redis: redis.partial(),
  replicaCount: count(1),
  image: z
    .strictObject({
      repository: z.string().min(1),
      tag: name(),
      digest: z.string().regex(/^(sha256:[0-9a-f]{64})?$/),
      pullPolicy: pullPolicy(),
    })
    .partial(),
  imagePullSecrets: kubernetesList(),
  nameOverride: name(),
  fullnameOverride: name(),
  service: z
    .strictObject({
      type: z.enum(["ClusterIP", "NodePort", "LoadBalancer"]),
      port: port(),
      annotations: texts(),
    })
    .partial(),
  adminService: z.strictObject({ port: port(), annotations: texts() }).partial(),
  serviceAccount: z.strictObject({ create: z.boolean(), name: name(), annotations: texts() }).partial(),
  resources: kubernetes(),
  autoscaling: z
    .strictObject({
      enabled: z.boolean(),
      minReplicas: count(1),
      maxReplicas: count(1),
      targetCPUUtilizationPercentage: count(1),
      behavior: kubernetes(),
    })
    .partial(),
  podDisruptionBudget: z
    .strictObject({
      enabled: z.boolean(),
      maxUnavailable: z.union([count(1), z.string().regex(/^[1-9][0-9]?%$/)]),
    })
    .partial(),
  strategy: kubernetes(),
  persistence: z.strictObject({ ...persistence, existingClaim: name() }).partial(),
  networkPolicy: z
    .strictObject({
      enabled: z.boolean(),
      callers: peers(),
      admin: peers(),
      dns: destination(),
      upstream: destination(),
      redis: destination(),
      extraEgress: kubernetesList(),
    })
    .partial(),
  serviceMonitor: z
    .strictObject({
      enabled: z.boolean(),
      labels: texts(),
      interval: span(),
      scrapeTimeout: span(),
      relabelings: kubernetesList(),
      metricRelabelings: kubernetesList(),
    })
    .partial(),
  prometheusRule: z.strictObject({ enabled: z.boolean(), labels: texts() }).partial(),
  dashboard: z.strictObject({ enabled: z.boolean(), labels: texts(), annotations: texts() }).partial(),
  extraEnv: z.array(z.looseObject({ name: z.string() })),
  extraVolumes: kubernetesList(),
  extraVolumeMounts: kubernetesList(),
  podAnnotations: texts(),
  podLabels: texts(),
  podSecurityContext: kubernetes(),
  securityContext: kubernetes(),
  nodeSelector: texts(),
  tolerations: kubernetesList(),
  affinity: kubernetes(),
  topologySpreadConstraints: kubernetesList(),
  priorityClassName: name(),
  // Not ours: Helm's own, and what a chart that has this one as a part hands down.
  global: kubernetes(),
});

/**
 * The JSON Schema by which Helm checks the chart's values.
 * @param config that of the settings
 */
export function chartValuesSchema(config: JsonSchema): object {
  const { properties } = z.toJSONSchema(values.partial(), { io: "input", target: "draft-7" });
  const { $schema: _, title: __, ...settings } = structuredClone(config);
  for (const { path, secret } of SETTINGS) {
    if (secret) looseTextAt(settings, path);
  }
  return {
    // The newest that Helm 3 knows too.
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Values of the chart property-gateway",
    type: "object",
    additionalProperties: false,
    properties: { config: settings, ...properties },
  };
}

/** Of a secret, the schema may not tell the form: see secretText. */
function looseTextAt(schema: JsonSchema, [name = "", ...below]: readonly string[]): void {
  const part = schema.properties?.[name];
  if (!part || !schema.properties) throw new Error(`there is no ${name} in the JSON Schema`);
  if (below.length > 0) looseTextAt(part, below);
  else schema.properties[name] = { description: part.description ?? "", type: ["string", "null"] };
}
