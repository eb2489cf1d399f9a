import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import {
  type Anything,
  CHART,
  find,
  isPartOf,
  minimalWith,
  ownSecrets,
  podOf as pod,
  render,
  type Values,
  VALUE_FILES,
  valuesOf,
} from "../support/chart.ts";
import type { Manifest } from "../support/kubernetes-check.ts";

const few = render(valuesOf("minimal"));
const full = render(valuesOf("full"));
const trial = render(valuesOf("trial"));

function environment(manifests: readonly Manifest[]): Record<string, Anything> {
  return Object.fromEntries(
    pod(manifests).spec.containers[0].env.map(({ name, value, valueFrom }: Anything) => [
      name,
      value ?? valueFrom.secretKeyRef,
    ]),
  );
}

function settingsFile(manifests: readonly Manifest[]): Anything {
  const all: Anything[] = manifests.filter(({ kind }) => kind === "ConfigMap");
  return parse(all.map(({ data }) => data["gateway.yaml"]).find((text) => text !== undefined));
}

describe.each(VALUE_FILES)("every pod with the values of %s", (name) => {
  const manifests: Anything[] = render(valuesOf(name));
  const pods = manifests.flatMap((manifest): [string, Anything, Anything][] =>
    manifest.kind === "Pod"
      ? [[manifest.metadata.name, manifest.spec, manifest.metadata.labels]]
      : manifest.kind === "Deployment"
        ? [[manifest.metadata.name, manifest.spec.template.spec, manifest.spec.template.metadata.labels]]
        : [],
  );

  it.each(pods)("%s has no rights that it does not need", (_, { containers, ...spec }) => {
    expect(spec).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(spec.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(spec.securityContext.runAsUser).toBeGreaterThan(0);
    for (const container of containers) {
      expect(container.securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      expect(container.resources).toMatchObject({
        requests: { cpu: expect.anything(), memory: expect.anything() },
        limits: { memory: expect.anything() },
      });
    }
  });

  it("is selected by its Services only, at ports that it has", () => {
    const services = manifests.filter(({ kind }) => kind === "Service");
    expect(services.length).toBe(name === "trial" ? 3 : 2);
    for (const { spec } of services) {
      const chosen = pods.filter(([, , labels]) => isPartOf(spec.selector, labels));
      expect(chosen).toHaveLength(1);
      const names = chosen[0]?.[1].containers[0].ports.map((port: Anything) => port.name);
      expect(names).toContain(spec.ports[0].targetPort);
    }
  });
});

describe("the gateway's pod", () => {
  it("is probed on the admin port, as the values say", () => {
    const httpGet = { path: "/livez", port: "admin" };
    const probesOf = ({ startupProbe, livenessProbe, readinessProbe }: Anything): unknown => [
      startupProbe,
      livenessProbe,
      readinessProbe,
    ];
    expect(probesOf(pod(few).spec.containers[0])).toEqual([
      { httpGet, periodSeconds: 1, failureThreshold: 60 },
      { httpGet, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 },
      { httpGet: { ...httpGet, path: "/readyz" }, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 2 },
    ]);
    const httpHeaders = [{ name: "X-Probe", value: "live" }];
    expect(probesOf(pod(full).spec.containers[0])).toMatchObject([
      { httpGet, periodSeconds: 1, failureThreshold: 120 },
      { httpGet: { ...httpGet, httpHeaders }, periodSeconds: 20, timeoutSeconds: 5 },
      { httpGet: { path: "/readyz" }, timeoutSeconds: 5 },
    ]);
    const exec = { command: ["true"] };
    const replaced = render(minimalWith({ livenessProbe: { exec } }));
    expect(pod(replaced).spec.containers[0].livenessProbe).not.toHaveProperty("httpGet");
    const { ports } = pod(full).spec.containers[0];
    expect(ports).toEqual([
      { name: "http", containerPort: 8081 },
      { name: "admin", containerPort: 9091 },
    ]);
    expect(settingsFile(full).admin.host).toBe("0.0.0.0");
  });

  it.each<[string, Values, number]>([
    ["as it is", {}, 5 + 10],
    ["longer", { config: { server: { drainTimeout: "2m" } } }, 5 + 120],
    ["in parts of a second", { config: { server: { drainTimeout: "1500ms" } } }, 5 + 2],
    ["with a longer delay before", { config: { server: { stopDelay: "20s" } } }, 20 + 10],
  ])("is given the time to drain, and some to spare: %s", (_, values, atLeast) => {
    expect(pod(render(minimalWith(values))).spec.terminationGracePeriodSeconds).toBe(atLeast + 10);
  });

  it("goes on for a while when it is to stop, because other nodes hear of it later", () => {
    expect(settingsFile(few).server).toEqual({ stopDelay: "5s" });
    expect(settingsFile(full).server.stopDelay).toBe("8s");
  });

  it.each<[string, Values, string]>([
    ["one pod, which stops before the next starts", {}, "1"],
    ["all pods, and one more during an update", { replicaCount: 3 }, "4"],
    ["the most that scaling makes", { autoscaling: { enabled: true, maxReplicas: 7 } }, "8"],
    ["the surge as a number", { replicaCount: 3, strategy: { rollingUpdate: { maxSurge: 2 } } }, "5"],
    [
      "the surge in percent, rounded up",
      {
        autoscaling: { enabled: true, maxReplicas: 9 },
        strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: "50%" } },
      },
      "14",
    ],
    ["the surge that Kubernetes assumes", { replicaCount: 5, strategy: { type: "RollingUpdate" } }, "7"],
    ["no surge", { replicaCount: 3, strategy: { type: "Recreate" } }, "3"],
    ["more, if the values say so", { config: { budget: { replicas: 20 } } }, "20"],
  ])("is told how many replicas run at once: %s", (_, values, replicas) => {
    const redis = replicas === "1" ? {} : { redis: { url: "redis://r" } };
    expect(environment(render(minimalWith({ ...redis, ...values })))["REPLICAS"]).toBe(replicas);
  });

  it("leaves the number of pods to the autoscaler where there is one", () => {
    expect(find(full, "Deployment", "gateway").spec).not.toHaveProperty("replicas");
    expect(find(full, "HorizontalPodAutoscaler").spec).toMatchObject({
      minReplicas: 3,
      maxReplicas: 9,
      scaleTargetRef: { kind: "Deployment", name: find(full, "Deployment", "gateway").metadata.name },
    });
    expect(find(trial, "Deployment", "gateway").spec.replicas).toBe(2);
  });

  it("is replaced after its successor is ready, or without Redis before there is one", () => {
    expect(find(trial, "Deployment", "gateway").spec.strategy).toEqual({
      type: "RollingUpdate",
      rollingUpdate: { maxUnavailable: 0, maxSurge: 1 },
    });
    expect(find(few, "Deployment", "gateway").spec.strategy).toEqual({ type: "Recreate" });
  });

  it("is replaced when its settings or the chart's Secret change, and not otherwise", () => {
    const checksums = (values: Values): Anything => pod(render(minimalWith(values))).metadata.annotations;
    const one = checksums({ redis: { url: "redis://r" } });
    expect(checksums({ redis: { url: "redis://r" }, resources: {}, service: { port: 81 } })).toEqual(one);
    const config = checksums({ redis: { url: "redis://r" }, config: { cache: { ttl: { sold: "2h" } } } });
    expect(config["checksum/config"]).not.toBe(one["checksum/config"]);
    expect(config["checksum/secret"]).toBe(one["checksum/secret"]);
    expect(checksums({ redis: { url: "redis://other" } })["checksum/secret"]).not.toBe(
      one["checksum/secret"],
    );
    const warm = checksums({ redis: { url: "redis://r" }, warmUrls: [{ url: "/areas?q=Nacka" }] });
    expect(warm["checksum/config"]).not.toBe(one["checksum/config"]);
    // Running pods notice a new key.
    const key = { existingSecret: "", value: "k" };
    expect(checksums({ redis: { url: "redis://r" }, privateKey: key })).toEqual(one);
  });

  it("is spread over zones and nodes among those of its own version", () => {
    const spread: Anything[] = pod(trial).spec.topologySpreadConstraints;
    expect(spread.map(({ topologyKey }) => topologyKey)).toEqual([
      "topology.kubernetes.io/zone",
      "kubernetes.io/hostname",
    ]);
    for (const { labelSelector, matchLabelKeys, whenUnsatisfiable } of spread) {
      expect(isPartOf(labelSelector.matchLabels, pod(trial).metadata.labels)).toBe(true);
      expect([matchLabelKeys, whenUnsatisfiable]).toEqual([["pod-template-hash"], "ScheduleAnyway"]);
    }
  });

  it("keeps what it must on a volume, and with Redis nothing", () => {
    const volume = (manifests: readonly Manifest[]): Anything =>
      pod(manifests).spec.volumes.find(({ name }: Anything) => name === "data");
    expect(volume(few).emptyDir).toEqual({});
    const kept = render(valuesOf("no-redis"));
    expect(volume(kept).persistentVolumeClaim.claimName).toBe(
      find(kept, "PersistentVolumeClaim").metadata.name,
    );
    expect(volume(trial)).toBeUndefined();
    const mount = pod(few).spec.containers[0].volumeMounts.find(({ name }: Anything) => name === "data");
    expect(environment(few)["DATA_DIR"]).toBe(`${mount.mountPath}/gateway`);
    expect(volume(render(minimalWith({ config: { dataDir: "" } })))).toBeUndefined();
  });

  it("takes everything else from the values", () => {
    const values: Anything = valuesOf("full");
    const { spec, metadata } = pod(full);
    for (const name of [
      "nodeSelector",
      "tolerations",
      "affinity",
      "topologySpreadConstraints",
      "priorityClassName",
      "initContainers",
    ]) {
      expect([name, spec[name]]).toEqual([name, values[name]]);
    }
    const [gateway, ...others] = spec.containers;
    expect(others).toEqual(values.extraContainers);
    expect(gateway.resources).toEqual(values.resources);
    expect(gateway.env).toContainEqual({ name: "TZ", value: "UTC" });
    expect(gateway.envFrom).toEqual(values.envFrom);
    expect(gateway.volumeMounts).toContainEqual(values.extraVolumeMounts[0]);
    expect(spec.volumes).toContainEqual(values.extraVolumes[0]);
    expect(metadata.annotations).toMatchObject(values.podAnnotations);
    expect(metadata.labels).toMatchObject({ ...values.podLabels, ...values.commonLabels });
  });
});

describe("all pods", () => {
  it("take images from the registry that the values name, with its Secrets", () => {
    const imageOf = (manifests: readonly Manifest[], component: string): unknown =>
      find(manifests, "Deployment", component).spec.template.spec.containers[0].image;
    const { image }: Anything = valuesOf("full");
    expect(imageOf(full, "gateway")).toBe(`mirror.example.com/platform/property-gateway@${image.digest}`);
    expect(find(full, "Pod", "test").spec.containers[0].image).toBe(imageOf(full, "gateway"));
    expect(imageOf(trial, "gateway")).toBe("mirror.example.com/property-gateway:0.2.0");
    expect(imageOf(trial, "redis")).toBe("mirror.example.com/redis:7.4-alpine");
    const own = render(minimalWith({ image: { registry: "registry.example.com:5000", tag: "1.2.3" } }));
    expect(imageOf(own, "gateway")).toBe("registry.example.com:5000/property-gateway:1.2.3");
    const secrets = [{ name: "mirror" }, { name: "registry" }];
    for (const { imagePullSecrets } of [pod(full).spec, find(full, "Pod", "test").spec]) {
      expect(imagePullSecrets).toEqual(secrets);
    }
  });

  it("go where the values say: those of the gateway, unless there are others", () => {
    const values: Anything = valuesOf("full");
    expect(find(full, "Pod", "test").spec).toMatchObject({
      nodeSelector: values.helmTest.nodeSelector,
      tolerations: values.helmTest.tolerations,
      affinity: values.helmTest.affinity,
    });
    const { redis }: Anything = valuesOf("trial");
    const { nodeSelector, tolerations, affinity } = redis.trial;
    expect(find(trial, "Deployment", "redis").spec.template.spec).toMatchObject({
      nodeSelector,
      tolerations,
      affinity,
    });
    expect(find(trial, "Pod", "test").spec.nodeSelector).toEqual({ "kubernetes.io/os": "linux" });
  });

  it("keep a claim with the ledger when the release is removed, where the values say so", () => {
    const policyOf = (manifests: readonly Manifest[]): unknown =>
      find(manifests, "PersistentVolumeClaim").metadata.annotations?.["helm.sh/resource-policy"];
    expect(policyOf(render(valuesOf("no-redis")))).toBe("keep");
    expect(policyOf(render(minimalWith({ persistence: { enabled: true, keep: false } })))).toBeUndefined();
    expect(find(render(valuesOf("no-redis")), "PersistentVolumeClaim").spec.accessModes).toEqual([
      "ReadWriteOncePod",
    ]);
  });
});

describe("secrets", () => {
  it("stand in a Secret, mounted or referred to, and in nothing else", () => {
    const values = minimalWith({
      privateKey: { existingSecret: "", value: "the-private-key" },
      adminToken: { value: "the-admin-token" },
      redis: { url: "redis://:the-password@redis.example" },
    });
    const manifests = render(values);
    const name = "gw-property-gateway";
    expect(ownSecrets(manifests)[name]).toEqual({
      "private-key": "the-private-key",
      "admin-token": "the-admin-token",
      "redis-url": "redis://:the-password@redis.example",
    });
    const others = JSON.stringify(manifests.filter(({ kind }) => kind !== "Secret"));
    expect(others).not.toMatch(/the-private-key|the-admin-token|the-password/);
    expect(environment(manifests)).toMatchObject({
      REDIS_URL: { name, key: "redis-url" },
      ADMIN_TOKEN: { name, key: "admin-token" },
    });
  });

  it("are referred to where they exist, and then none is made", () => {
    expect(full.filter(({ kind }) => kind === "Secret")).toEqual([]);
    expect(environment(full)).toMatchObject({ REDIS_URL: { name: "redis", key: "address" } });
    const { secret } = pod(full).spec.volumes.find(({ name }: Anything) => name === "private-key");
    expect(secret).toMatchObject({ secretName: "upstream", items: [{ key: "key", path: "private-key" }] });
    const mount = pod(full).spec.containers[0].volumeMounts.find(
      ({ name }: Anything) => name === "private-key",
    );
    expect(environment(full)["UPSTREAM_PRIVATE_KEY_FILE"]).toBe(`${mount.mountPath}/private-key`);
    // A file mounted by itself would never change.
    expect(mount).not.toHaveProperty("subPath");
  });

  it("that the values do not name are not needed", () => {
    expect(Object.keys(environment(few)).toSorted()).toEqual([
      "CONFIG_FILE",
      "DATA_DIR",
      "REPLICAS",
      "UPSTREAM_PRIVATE_KEY_FILE",
    ]);
    const elsewhere = render(
      minimalWith({
        config: { upstream: { privateKeyFile: "/vault/key" } },
        privateKey: { existingSecret: "" },
      }),
    );
    expect(environment(elsewhere)).not.toHaveProperty("UPSTREAM_PRIVATE_KEY_FILE");
    expect(settingsFile(elsewhere).upstream.privateKeyFile).toBe("/vault/key");
  });
});

it("the chart has the version of the project", () => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8"));
  expect(parse(readFileSync(`${CHART}/Chart.yaml`, "utf8"))).toMatchObject({ version, appVersion: version });
});
