import * as z from "zod";

import { SETTINGS } from "../src/config/schema.ts";
import { type AlertValues, alertValues } from "./alert-rules.ts";
import { type JsonSchema } from "./config-json-schema.ts";

/** The chart's values besides `config`. Defaults and meanings are in its values.yaml. */

const text = (): z.ZodType => z.string();
const count = (min: number): z.ZodType => z.int().min(min);
const port = (): z.ZodType => z.int().min(1).max(65_535);
const texts = (): z.ZodType => z.record(z.string(), z.string());
/** A part of Kubernetes' own API. The cluster checks it. */
const kubernetes = (): z.ZodType => z.record(z.string(), z.unknown());
const kubernetesList = (): z.ZodType => z.array(kubernetes());
/** A section: any of its values may be left out. */
const section = (shape: z.ZodRawShape): z.ZodType => z.strictObject(shape).partial();

/** Any text. If the schema restricted the form, Helm's error message would show the secret. Templates check it instead. */
const secretText = (): z.ZodType => z.string();
/** A key in a Secret, as Kubernetes allows it. */
const secretKey = (): z.ZodType => z.string().regex(/^[-._a-zA-Z0-9]+$/);
const secret = (): z.ZodType =>
  section({ existingSecret: text(), existingSecretKey: secretKey(), value: secretText() });
const pullPolicy = (): z.ZodType => z.enum(["Always", "IfNotPresent", "Never"]);
const pullSecrets = (): z.ZodType => z.array(z.union([z.string(), z.looseObject({ name: z.string() })]));
const peers = (): z.ZodType => section({ from: kubernetesList() });
const destination = (): z.ZodType => section({ to: kubernetesList(), ports: z.array(port()) });
/** A duration as Prometheus writes it. */
const span = (): z.ZodType => z.string().regex(/^([0-9]+(ms|[smhdwy]))+$/);
const named = (): z.ZodType => z.array(z.looseObject({ name: z.string() }));

const marks = { annotations: texts(), labels: texts() };
const placement = { nodeSelector: texts(), tolerations: kubernetesList(), affinity: kubernetes() };
const persistence = {
  enabled: z.boolean(),
  // A quantity of Kubernetes.
  size: z.string().regex(/^[0-9]+(\.[0-9]+)?([KMGT]i?)?$/),
  storageClass: text(),
  accessModes: z.array(z.string()).min(1),
  annotations: texts(),
  keep: z.boolean(),
};

const trial = section({
  enabled: z.boolean(),
  image: text(),
  imagePullPolicy: pullPolicy(),
  password: secretText(),
  maxMemory: z.string().regex(/^[1-9][0-9]*(kb|mb|gb)$/),
  resources: kubernetes(),
  podAnnotations: texts(),
  podLabels: texts(),
  ...placement,
  persistence: section(persistence),
});

const services = {
  service: section({
    type: z.enum(["ClusterIP", "NodePort", "LoadBalancer"]),
    port: port(),
    nodePort: port().nullable(),
    loadBalancerClass: text(),
    loadBalancerSourceRanges: z.array(z.string()),
    externalTrafficPolicy: z.enum(["", "Cluster", "Local"]),
    ...marks,
  }),
  adminService: section({ port: port(), ...marks }),
  ingress: section({
    enabled: z.boolean(),
    className: text(),
    hosts: z.array(
      z.strictObject({
        host: z.string(),
        paths: z
          .array(
            section({ path: z.string(), pathType: z.enum(["Prefix", "Exact", "ImplementationSpecific"]) }),
          )
          .optional(),
      }),
    ),
    tls: kubernetesList(),
    ...marks,
  }),
  httpRoute: section({
    enabled: z.boolean(),
    parentRefs: named(),
    hostnames: z.array(z.string()),
    rules: kubernetesList(),
    ...marks,
  }),
};

const monitoring = {
  serviceMonitor: section({
    enabled: z.boolean(),
    namespace: text(),
    interval: span(),
    scrapeTimeout: span(),
    tlsConfig: kubernetes(),
    relabelings: kubernetesList(),
    metricRelabelings: kubernetesList(),
    ...marks,
  }),
  prometheusRule: section({
    enabled: z.boolean(),
    namespace: text(),
    runbookUrl: text(),
    alertLabels: texts(),
    extraRules: kubernetesList(),
    alerts: section(Object.fromEntries(Object.entries(alertValues()).map(alertShape))),
    ...marks,
  }),
  dashboard: section({ enabled: z.boolean(), namespace: text(), ...marks }),
};

/** An alert can have a threshold only if it has one by default. */
function alertShape([name, values]: [string, AlertValues]): [string, z.ZodType] {
  const threshold = { ...(values.threshold !== undefined && { threshold: z.number().min(0) }) };
  return [name, section({ enabled: z.boolean(), severity: z.string().min(1), for: span(), ...threshold })];
}

const values = z.strictObject({
  privateKey: secret(),
  adminToken: secret(),
  redis: section({
    existingSecret: text(),
    existingSecretKey: secretKey(),
    url: secretText(),
    auth: secret(),
    sentinelAuth: secret(),
    trial,
  }),
  upstreamProxy: secret(),
  replicaCount: count(1),
  image: section({
    registry: text(),
    repository: z.string().min(1),
    tag: text(),
    digest: z.string().regex(/^(sha256:[0-9a-f]{64})?$/),
    pullPolicy: pullPolicy(),
  }),
  imagePullSecrets: pullSecrets(),
  nameOverride: text(),
  fullnameOverride: text(),
  commonLabels: texts(),
  commonAnnotations: texts(),
  ...services,
  serviceAccount: section({ create: z.boolean(), name: text(), ...marks }),
  resources: kubernetes(),
  autoscaling: section({
    enabled: z.boolean(),
    minReplicas: count(1),
    maxReplicas: count(1),
    targetCPUUtilizationPercentage: count(1).nullable(),
    targetMemoryUtilizationPercentage: count(1).nullable(),
    metrics: kubernetesList(),
    behavior: kubernetes(),
    annotations: texts(),
  }),
  podDisruptionBudget: section({
    enabled: z.boolean(),
    maxUnavailable: z.union([count(1), z.string().regex(/^[1-9][0-9]?%$/)]),
    annotations: texts(),
  }),
  strategy: z
    .strictObject({
      type: z.enum(["RollingUpdate", "Recreate"]),
      rollingUpdate: section({ maxSurge: countOrPercent(), maxUnavailable: countOrPercent() }),
    })
    .partial(),
  persistence: section({ ...persistence, labels: texts(), existingClaim: text() }),
  networkPolicy: section({
    enabled: z.boolean(),
    annotations: texts(),
    callers: peers(),
    admin: peers(),
    dns: destination(),
    upstream: destination(),
    redis: destination(),
    extraIngress: kubernetesList(),
    extraEgress: kubernetesList(),
  }),
  ...monitoring,
  extraEnv: named(),
  envFrom: kubernetesList(),
  extraVolumes: named(),
  extraVolumeMounts: kubernetesList(),
  extraContainers: named(),
  initContainers: named(),
  extraObjects: z.array(z.union([kubernetes(), z.string()])),
  deploymentAnnotations: texts(),
  podAnnotations: texts(),
  podLabels: texts(),
  startupProbe: kubernetes(),
  livenessProbe: kubernetes(),
  readinessProbe: kubernetes(),
  podSecurityContext: kubernetes(),
  securityContext: kubernetes(),
  ...placement,
  topologySpreadConstraints: kubernetesList(),
  priorityClassName: text(),
  helmTest: section({ ...placement, podAnnotations: texts(), resources: kubernetes() }),
  // Open, because a parent chart passes its own global values on.
  global: z.looseObject({ imageRegistry: text(), imagePullSecrets: pullSecrets() }).partial(),
});

function countOrPercent(): z.ZodType {
  return z.union([count(0), z.string().regex(/^[0-9]+%$/)]);
}

/**
 * The JSON Schema with which Helm checks the chart's values.
 * @param config the JSON Schema of the settings
 */
export function chartValuesSchema(config: JsonSchema): object {
  const { properties } = z.toJSONSchema(values.partial(), { io: "input", target: "draft-7" });
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

/** Removes the form of a secret from the schema; see secretText. */
function looseTextAt(schema: JsonSchema, [name = "", ...below]: readonly string[]): void {
  const part = schema.properties?.[name];
  if (!part || !schema.properties) throw new Error(`there is no ${name} in the JSON Schema`);
  if (below.length > 0) looseTextAt(part, below);
  else schema.properties[name] = { description: part.description ?? "", type: ["string", "null"] };
}
