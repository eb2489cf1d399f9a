import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import { isMapping } from "../../src/config/sources.ts";
import {
  type Anything,
  CHART,
  find,
  helm,
  minimalWith,
  overlaid,
  refusal,
  render,
  VALUE_FILES,
  type Values,
  valuesOf,
} from "../support/chart.ts";
import { KUBERNETES_VERSIONS } from "../support/helm-tools.ts";
import { isCustom, kubernetesCheck, customFaults } from "../support/kubernetes-check.ts";

/** The path of every value; an empty map or a list is a value. */
function pathsIn(values: Values, prefix = ""): string[] {
  return Object.entries(values).flatMap(([key, value]) =>
    isMapping(value) && Object.keys(value).length > 0 ? pathsIn(value, `${prefix}${key}.`) : prefix + key,
  );
}

it("the example values set every value of the chart", () => {
  expect(VALUE_FILES.toSorted()).toEqual(["cluster", "full", "minimal", "no-redis", "sentinel", "trial"]);
  const said = VALUE_FILES.flatMap((name) => pathsIn(valuesOf(name)));
  // What is inside of these is Kubernetes' own, or is the same for each alert.
  const inner =
    /^(.*resources|podSecurityContext|securityContext|.*Probe|autoscaling\.behavior|prometheusRule\.alerts)\..*/;
  const all = pathsIn(parse(readFileSync(`${CHART}/values.yaml`, "utf8"))).map((path) =>
    path.replace(inner, "$1"),
  );
  const isSaid = (path: string): boolean => said.some((one) => one === path || one.startsWith(`${path}.`));
  // Each excludes a value that is set: a claim of one's own, and a password beside the name of a Secret.
  expect([...new Set(all)].filter((path) => !isSaid(path))).toEqual([
    "redis.sentinelAuth.value",
    "persistence.existingClaim",
  ]);
});

/** One check for each version: it compiles each schema once. */
const CHECKS = KUBERNETES_VERSIONS.map((version) => [version, kubernetesCheck(version)] as const);

it("the custom resources are what the Prometheus operator and the Gateway API know", async () => {
  const custom = VALUE_FILES.flatMap((name) => render(valuesOf(name)).filter(isCustom));
  expect(new Set(custom.map(({ kind }) => kind))).toEqual(
    new Set(["HTTPRoute", "PrometheusRule", "ServiceMonitor"]),
  );
  expect(await customFaults(custom)).toEqual([]);
});

describe.each(VALUE_FILES)("the chart with the values of %s", (name) => {
  const manifests = render(valuesOf(name));

  it("passes `helm lint --strict`", () => {
    const { succeeded, stdout, stderr } = helm(["lint", "--strict", CHART], valuesOf(name));
    expect([succeeded, stdout + stderr]).toEqual([true, expect.not.stringMatching(/\[(WARNING|ERROR)\]/)]);
  });

  it.each(CHECKS)("is what Kubernetes %s knows, to the last field", (_, check) => {
    expect(manifests.filter((manifest) => !isCustom(manifest)).flatMap(check)).toEqual([]);
  });

  it("is the same under Helm 3", () => {
    expect(render(valuesOf(name), 3)).toEqual(manifests);
    const { succeeded, stdout } = helm(["lint", "--strict", CHART], valuesOf(name), 3);
    expect([succeeded, stdout]).toEqual([true, expect.not.stringMatching(/\[(WARNING|ERROR)\]/)]);
  });

  it("gives each resource a name of its own among its kind", () => {
    const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe("the checks of what is rendered", () => {
  const manifests = render(valuesOf("full"));

  it.each(CHECKS)("see wrong types and unknown fields of Kubernetes %s", (_, check) => {
    const deployment = structuredClone(find(manifests, "Deployment", "gateway"));
    const [container] = deployment.spec.template.spec.containers;
    container.livenessProb = container.livenessProbe;
    container.ports[0].containerPort = "8080";
    deployment.spec.template.spec.topologySpreadConstraints[0].maxSkew = "1";
    expect(check(deployment)).toEqual([
      expect.stringMatching(/containers\/0: must NOT have additional .*livenessProb"/),
      expect.stringMatching(/containerPort: must be integer/),
      expect.stringMatching(/maxSkew: must be integer/),
    ]);
    const [service = ""] = check({ ...find(manifests, "Service", "admin"), apiVersion: "v3" });
    expect(service).toMatch(/has no Service of v3/);
  });

  it("see wrong types, unknown fields and malformed durations of the Prometheus operator", async () => {
    const monitor = structuredClone(find(manifests, "ServiceMonitor"));
    monitor.spec.endpoints[0].intervall = "15s";
    monitor.spec.endpoints[0].scrapeTimeout = "5 s";
    const rule = structuredClone(find(manifests, "PrometheusRule"));
    rule.spec.groups[0].rules[0].labels = { severity: 3 };
    const faults = (await customFaults([monitor, rule])).join("\n");
    expect(faults).toMatch(/"intervall"' does not exist/);
    expect(faults).toMatch(/scrapeTimeout must match pattern/);
    expect(faults).toMatch(/'number' is not assignable to type 'string'/);
  });
});

type Mistake = readonly [what: string, values: Values, reason: RegExp];

const repeatedTz = [
  { name: "TZ", value: "UTC" },
  { name: "TZ", value: "CET" },
];

/** Values that are refused, by what they have in common. */
const MISTAKES: Readonly<Record<string, readonly Mistake[]>> = {
  "of another form": [
    [
      "a misspelled setting",
      { config: { budget: { limitt: "1/1m" } } },
      /'\/config\/budget'.*'limitt' not allowed/,
    ],
    [
      "a setting of the wrong type",
      { config: { cache: { ttl: { sold: 60 } } } },
      /'\/config\/cache\/ttl\/sold': got number, want string/,
    ],
    ["a misspelled value", { privateKy: {} }, /'privateKy' not allowed/],
    ["a value of the wrong type", { replicaCount: "two" }, /'\/replicaCount': got string, want integer/],
    [
      "an unknown alert",
      { prometheusRule: { alerts: { GatewayAsleep: { enabled: false } } } },
      /'GatewayAsleep' not allowed/,
    ],
    [
      "a threshold for an alert that has none",
      { prometheusRule: { alerts: { GatewayDown: { threshold: 1 } } } },
      /'threshold' not allowed/,
    ],
  ],
  "without Redis": [
    ["replicas", { replicaCount: 2 }, /2 replicas without Redis: each would have the whole budget/],
    [
      "a rolling update",
      { strategy: { type: "RollingUpdate" } },
      /strategy\.type must be Recreate without Redis/,
    ],
    ["a Cluster", { config: { redis: { mode: "cluster" } } }, /mode is cluster, but there is no Redis/],
    [
      "a volume that is too small",
      { persistence: { enabled: true, size: "1Gi" } },
      /persistence\.size is 1Gi, but config\.cache\.maxDiskBytes is 1GiB/,
    ],
    ["a relative directory", { config: { dataDir: "./data" } }, /config\.dataDir is not absolute/],
  ],
  "without Redis, scaled": [
    ["scaling", { autoscaling: { enabled: true } }, /5 replicas without Redis/],
    [
      "scaling by nothing",
      { autoscaling: { targetCPUUtilizationPercentage: null } },
      /no target and no metrics/,
    ],
    [
      "a rolling update by default",
      { strategy: { rollingUpdate: { maxSurge: 0 } } },
      /strategy\.type must be Recreate without Redis/,
    ],
    [
      "a volume that nothing is written to",
      { persistence: { enabled: true }, config: { dataDir: "" } },
      /config\.dataDir is empty/,
    ],
  ],
  "with Redis": [
    [
      "two places for Redis",
      { redis: { url: "redis://r", trial: { enabled: true } } },
      /expected one of redis\.existingSecret/,
    ],
    ["a volume", { persistence: { enabled: true } }, /persistence is for a gateway without Redis/],
    [
      "scaling from more to fewer",
      { autoscaling: { enabled: true, minReplicas: 6 } },
      /maxReplicas is less than/,
    ],
    [
      "scaling by what is not requested",
      { resources: { requests: { cpu: null } } },
      /autoscaling by cpu needs resources\.requests\.cpu/,
    ],
    [
      "fewer replicas for the budget than run",
      { config: { budget: { replicas: 5 } } },
      /config\.budget\.replicas is less than the 6 pods that may run at once/,
    ],
    [
      "Sentinels that are not named",
      { config: { redis: { mode: "sentinel", sentinel: { master: "m" } } } },
      /mode is sentinel: set .*sentinel\.nodes/,
    ],
    ["a trial Redis with Sentinels", {}, /mode is sentinel, but redis\.trial is a single server/],
    ["a trial Redis with another password", { redis: { auth: { value: "p" } } }, /redis\.trial has its own/],
  ],
  "with names and sizes": [
    [
      "two private keys",
      { privateKey: { value: "k" } },
      /privateKey\.existingSecret and privateKey\.value are both set/,
    ],
    [
      "a key file and a key",
      { config: { upstream: { privateKeyFile: "/vault/key" } } },
      /privateKeyFile and privateKey are both set/,
    ],
    [
      "two admin tokens",
      { adminToken: { value: "t", existingSecret: "t" } },
      /adminToken\.value are both set/,
    ],
    [
      "two lists of URLs to keep warm",
      { warmUrls: [{ url: "/areas?q=Nacka" }], config: { warm: { file: "/w.yaml" } } },
      /warmUrls and config\.warm\.file are both set/,
    ],
    ["any free port", { config: { server: { port: 0 } } }, /config\.server\.port is 0/],
    [
      "a cache that does not fit into the memory",
      { config: { cache: { maxBytes: "400MiB" } } },
      /limits\.memory is 768Mi, but with config\.cache\.maxBytes of 400MiB the process needs 820Mi/,
    ],
    [
      "a variable that the chart sets",
      { extraEnv: [{ name: "REPLICAS", value: "1" }, { name: "ADMIN_PORT", value: "1" }, ...repeatedTz] },
      /extraEnv sets REPLICAS, which the chart sets/,
    ],
    [
      "a memory request above its limit",
      { resources: { requests: { memory: "1Gi" } } },
      /requests\.memory is 1Gi, which is more than resources\.limits\.memory \(768Mi\)/,
    ],
    ["a variable that moves a port", {}, /extraEnv sets ADMIN_PORT/],
    ["a variable that is there twice", {}, /extraEnv sets TZ twice/],
    ["a container named as the chart's", { extraContainers: [{ name: "gateway" }] }, /two containers/],
    ["a volume named as one of the chart's", { extraVolumes: [{ name: "tmp" }] }, /two volumes .* tmp/],
    [
      "a pod label of the chart's own",
      { podLabels: { "app.kubernetes.io/component": "web" } },
      /podLabels sets app\.kubernetes\.io\/component/,
    ],
    [
      "a common label of the chart's own",
      { commonLabels: { "app.kubernetes.io/name": "web" } },
      /commonLabels sets app\.kubernetes\.io\/name/,
    ],
    ["an Ingress without hosts", { ingress: { enabled: true } }, /ingress\.hosts is empty/],
    ["a route without a Gateway", { httpRoute: { enabled: true } }, /httpRoute\.parentRefs is empty/],
    ["a node port that is not used", { service: { nodePort: 30_080 } }, /service\.nodePort needs/],
    [
      "one severity for all alerts",
      { prometheusRule: { alertLabels: { severity: "info" } } },
      /alertLabels sets severity/,
    ],
  ],
};

describe("an install", () => {
  it("needs three values, and names those that are missing", () => {
    const message = refusal({});
    expect(message).toMatch(/config\.upstream\.url is missing: the address of the property API/);
    expect(message).toMatch(/config\.upstream\.callerId is missing: your caller id/);
    expect(message).toMatch(/the private key is missing: name the Secret .* privateKey\.existingSecret/);
    const three = { config: { upstream: { url: "https://api.example.com", callerId: "acme" } } };
    expect(refusal({ ...three, privateKey: { existingSecret: "upstream" } })).toBe("");
    expect(refusal({ ...three, privateKey: { value: "k" } })).toBe("");
  });

  // Helm lists every mistake at once, so the values of a group are rendered together.
  describe.each(Object.entries(MISTAKES))("%s", (_, mistakes) => {
    const all = mistakes.map(([, values]) => values).reduce(overlaid, minimalWith({}));
    const message = refusal(all);

    it.each(mistakes)("is refused with %s", (__, ___, reason) => {
      expect(message).toMatch(reason);
    });
  });

  it.each([
    "upstream.privateKey",
    "upstream.proxy.https",
    "redis.url",
    "redis.password",
    "redis.sentinel.password",
    "admin.token",
  ])("never takes config.%s, which many could read there", (name) => {
    const secret = "http://user:secret@redis.example";
    const section = name.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), secret);
    const message = refusal(minimalWith({ config: section }));
    expect(message).toMatch(`config.${name} would be readable in a ConfigMap`);
    expect(message).not.toContain(secret);
  });

  it.each<[string, Values, RegExp]>([
    ["the address of Redis", { redis: { url: "Secret#1" } }, /redis\.url is not an address/],
    [
      "the password of its Redis",
      { redis: { trial: { enabled: true, password: "Secret#1" } } },
      /redis\.trial\.password contains something other than letters/,
    ],
    [
      "a private key file that is a number",
      { config: { upstream: { privateKeyFile: 12_345 } } },
      /got number/,
    ],
  ])("does not show %s when it is wrong", (_, values, message) => {
    const said = refusal(minimalWith(values));
    expect(said).toMatch(message);
    expect(said).not.toMatch(/Secret#1|12345/);
  });

  it("says in its notes what was assumed, and what one pod without Redis means", () => {
    const notes = (values: Anything): string =>
      helm(["install", "gw", CHART, "--dry-run=client", "--namespace", "apps"], values).stdout.split(
        "NOTES:",
      )[1] ?? "";
    const few = notes(valuesOf("minimal"));
    expect(few).toMatch(/http:\/\/gw-property-gateway\.apps:80/);
    for (const name of ["imageUrl", "referrer", "userAgent", "service"])
      expect(few).toMatch(`config.upstream.${name}: `);
    expect(few).toMatch(/does not know\s+the spent budget/);
    expect(notes(valuesOf("no-redis"))).not.toMatch(/assumed|forgotten/);
    expect(notes(valuesOf("trial"))).toMatch(/for trials/);
    const full = notes(valuesOf("full"));
    expect(full).not.toMatch(/assumed|Without Redis|for trials/);
    expect(full).toMatch(/https:\/\/gateway\.acme\.example\n.*https:\/\/www\.acme\.example\/property\n/);
    expect(full).toMatch(/in the namespace monitoring: the Secret operators must exist there/);
  });
});
