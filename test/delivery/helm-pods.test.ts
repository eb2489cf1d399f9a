import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import {
  type Anything,
  CHART,
  find,
  minimalWith,
  ownSecrets,
  render,
  type Values,
  VALUE_FILES,
  valuesOf,
} from "../support/chart.ts";
import type { Manifest } from "../support/kubernetes-check.ts";

const few = render(valuesOf("minimal"));
const full = render(valuesOf("full"));
const trial = render(valuesOf("trial"));

/** The gateway's pod. */
function pod(manifests: readonly Manifest[]): Anything {
  return find(manifests, "Deployment", "gateway").spec.template;
}

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

const isPartOf = (part: Record<string, string>, whole: Record<string, string>): boolean =>
  Object.entries(part).every(([key, value]) => whole[key] === value);

describe.each(VALUE_FILES)("every pod with the values of %s", (name) => {
  const manifests: Anything[] = render(valuesOf(name));
  const pods = manifests.flatMap((manifest): [string, Anything, Anything][] =>
    manifest.kind === "Pod"
      ? [[manifest.metadata.name, manifest.spec, manifest.metadata.labels]]
      : manifest.kind === "Deployment"
        ? [[manifest.metadata.name, manifest.spec.template.spec, manifest.spec.template.metadata.labels]]
        : [],
  );

  it.each(pods)("%s may do as little as can be", (_, { containers, ...spec }) => {
    expect(spec).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(spec.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(spec.securityContext.runAsUser).toBeGreaterThan(0);
    for (const container of containers) {
      expect(container.securityContext).toEqual({
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

  it("is found by its Services, at ports that it has, and by no other's", () => {
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
  it("is asked on the admin port whether it lives and is ready", () => {
    const { livenessProbe, readinessProbe, startupProbe, ports } = pod(full).spec.containers[0];
    expect(livenessProbe.httpGet).toEqual({ path: "/livez", port: "admin" });
    expect(startupProbe.httpGet).toEqual({ path: "/livez", port: "admin" });
    expect(readinessProbe.httpGet).toEqual({ path: "/readyz", port: "admin" });
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
    [
      "as many as there are, and one more while rolling",
      { replicaCount: 3, redis: { url: "redis://r" } },
      "4",
    ],
    [
      "the most that scaling makes, and one more",
      { autoscaling: { enabled: true, maxReplicas: 7 }, redis: { url: "redis://r" } },
      "8",
    ],
    [
      "what is said, where it is more",
      { config: { budget: { replicas: 20 } }, redis: { url: "redis://r" } },
      "20",
    ],
  ])("is told how many replicas run at once: %s", (_, values, replicas) => {
    expect(environment(render(minimalWith(values)))["REPLICAS"]).toBe(replicas);
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
    // Running pods follow the file of the key.
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
    expect(mount.mountPath).toBe(environment(few)["DATA_DIR"]);
    expect(volume(render(minimalWith({ config: { dataDir: "" } })))).toBeUndefined();
  });

  it("takes everything else from the values as it is", () => {
    const values: Anything = valuesOf("full");
    const { spec, metadata } = pod(full);
    for (const name of [
      "nodeSelector",
      "tolerations",
      "affinity",
      "topologySpreadConstraints",
      "priorityClassName",
      "imagePullSecrets",
    ]) {
      expect([name, spec[name]]).toEqual([name, values[name]]);
    }
    expect(spec.containers[0].resources).toEqual(values.resources);
    expect(spec.containers[0].env).toContainEqual({ name: "TZ", value: "UTC" });
    expect(spec.containers[0].volumeMounts).toContainEqual(values.extraVolumeMounts[0]);
    expect(spec.volumes).toContainEqual(values.extraVolumes[0]);
    expect(spec.containers[0].image).toMatch(
      /^registry\.example\.com\/platform\/property-gateway@sha256:e3b0/,
    );
    expect(metadata.annotations).toMatchObject(values.podAnnotations);
    expect(metadata.labels).toMatchObject(values.podLabels);
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

  it("that nobody gave are not asked for", () => {
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

describe("the network policy", () => {
  const portsOf = (rule: Anything): number[] => rule.ports.map(({ port }: Anything) => port);
  const policy = (values: Values): Anything =>
    find(
      render(values).filter(({ metadata }) => !metadata.name.endsWith("-redis")),
      "NetworkPolicy",
    ).spec;

  it("lets callers in, and operators from its own namespace", () => {
    const { policyTypes, ingress, podSelector } = policy(valuesOf("minimal"));
    expect(policyTypes).toEqual(["Ingress", "Egress"]);
    expect(isPartOf(podSelector.matchLabels, pod(few).metadata.labels)).toBe(true);
    const [callers, admin, test] = ingress;
    expect([portsOf(callers), callers.from]).toEqual([[8080], undefined]);
    expect([portsOf(admin), admin.from]).toEqual([[9090], [{ podSelector: {} }]]);
    const { matchLabels } = test.from[0].podSelector;
    expect(isPartOf(matchLabels, find(few, "Pod").metadata.labels)).toBe(true);
  });

  it.each<[string, number[][]]>([
    ["minimal", [[53, 53], [443]]],
    [
      "no-redis",
      [
        [53, 53],
        [443, 8443],
      ],
    ],
    ["trial", [[53, 53], [443], [6379]]],
    ["sentinel", [[53, 53], [443], [26379, 6380]]],
    ["cluster", [[53, 53], [443], [7000, 7001]]],
    ["full", [[53, 53, 5353, 5353], [443, 8080], [6379], [4318]]],
  ])("with the values of %s lets out to DNS, the API, Redis and nowhere else", (name, ports) => {
    expect(policy(valuesOf(name)).egress.map(portsOf)).toEqual(ports);
  });

  it("takes whom to let in and where to let out from the values", () => {
    const { networkPolicy }: Anything = valuesOf("full");
    const { ingress, egress } = policy(valuesOf("full"));
    expect(ingress[0].from).toEqual(networkPolicy.callers.from);
    expect(ingress[1].from).toEqual(networkPolicy.admin.from);
    const [dns, upstream, redis] = egress;
    expect([dns.to, upstream.to, redis.to]).toEqual(
      ["dns", "upstream", "redis"].map((name) => networkPolicy[name].to),
    );
  });

  it("of the chart's own Redis lets the gateway in and nothing out", () => {
    const { spec }: Anything = find(
      trial.filter(({ metadata }) => metadata.name.endsWith("-redis")),
      "NetworkPolicy",
    );
    expect([spec.policyTypes, spec.egress]).toEqual([["Ingress", "Egress"], undefined]);
    expect(spec.ingress).toHaveLength(1);
    const [{ from }] = spec.ingress;
    expect(isPartOf(from[0].podSelector.matchLabels, pod(trial).metadata.labels)).toBe(true);
    const redis = find(trial, "Deployment", "redis").spec.template.metadata.labels;
    expect(isPartOf(spec.podSelector.matchLabels, redis)).toBe(true);
    expect(isPartOf(policy(valuesOf("trial")).egress[2].to[0].podSelector.matchLabels, redis)).toBe(true);
  });
});

describe("monitoring", () => {
  it("scrapes the admin Service, with the token where there is one", () => {
    const { spec } = find(full, "ServiceMonitor");
    const admin = find(full, "Service", "admin");
    expect(isPartOf(spec.selector.matchLabels, admin.metadata.labels)).toBe(true);
    expect(isPartOf(spec.selector.matchLabels, find(full, "Service", "gateway").metadata.labels)).toBe(false);
    expect(spec.endpoints[0]).toMatchObject({ port: admin.spec.ports[0].name, path: "/metrics" });
    expect(spec.endpoints[0].authorization.credentials).toEqual({ name: "operators", key: "token" });
    const open = render(minimalWith({ serviceMonitor: { enabled: true } }));
    expect(find(open, "ServiceMonitor").spec.endpoints[0]).not.toHaveProperty("authorization");
    const guarded = render(
      minimalWith({ serviceMonitor: { enabled: true }, adminToken: { existingSecret: "a" } }),
    );
    expect(find(guarded, "ServiceMonitor").spec.endpoints[0].authorization).toEqual({
      type: "Bearer",
      credentials: { name: "a", key: "admin-token" },
    });
  });

  it("installs the rules and the dashboard as they are", () => {
    const rules = parse(readFileSync(`${CHART}/files/rules.yaml`, "utf8"));
    expect(find(full, "PrometheusRule").spec).toEqual(rules);
    const dashboard = find(
      full.filter(({ metadata }) => metadata.name.endsWith("-dashboard")),
      "ConfigMap",
    );
    expect(dashboard.data["property-gateway.json"]).toBe(
      readFileSync(`${CHART}/files/dashboard.json`, "utf8"),
    );
    expect(dashboard.metadata.labels["grafana_dashboard"]).toBe("1");
  });

  it("is not there unless asked for, because its kinds may not be known", () => {
    expect(few.map(({ apiVersion }) => apiVersion)).not.toContain("monitoring.coreos.com/v1");
  });
});

it("the chart and what is in it have the version of the project", () => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8"));
  expect(parse(readFileSync(`${CHART}/Chart.yaml`, "utf8"))).toMatchObject({ version, appVersion: version });
});
