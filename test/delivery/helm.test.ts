import { describe, expect, it } from "vitest";

import {
  type Anything,
  CHART,
  find,
  helm,
  minimalWith,
  refusal,
  render,
  VALUE_FILES,
  type Values,
  valuesOf,
} from "../support/chart.ts";
import { KUBERNETES_VERSIONS } from "../support/helm-tools.ts";
import { isOfOperator, kubernetesCheck, operatorFaults } from "../support/kubernetes-check.ts";

it("has values to try: few, all, and each way of running Redis", () => {
  expect(VALUE_FILES.toSorted()).toEqual(["cluster", "full", "minimal", "no-redis", "sentinel", "trial"]);
});

describe.each(VALUE_FILES)("the chart with the values of %s", (name) => {
  const manifests = render(valuesOf(name));

  it("passes `helm lint --strict`", () => {
    const { succeeded, stdout, stderr } = helm(["lint", "--strict", CHART], valuesOf(name));
    expect([succeeded, stdout + stderr]).toEqual([true, expect.not.stringMatching(/\[(WARNING|ERROR)\]/)]);
  });

  it.each(KUBERNETES_VERSIONS)("is what Kubernetes %s knows, to the last field", (version) => {
    const check = kubernetesCheck(version);
    expect(manifests.filter((manifest) => !isOfOperator(manifest)).flatMap(check)).toEqual([]);
  });

  it("gives each resource a name of its own among its kind", () => {
    const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
  });
});

it("the chart with any values is what the Prometheus operator knows", async () => {
  // In one go: the compiler that checks the types takes a while to start.
  const manifests = VALUE_FILES.flatMap((name) => render(valuesOf(name)));
  expect(await operatorFaults(manifests.filter(isOfOperator))).toEqual([]);
});

describe("the checks of what is rendered", () => {
  const manifests = render(valuesOf("full"));

  it.each(KUBERNETES_VERSIONS)("see wrong types and unknown fields of Kubernetes %s", (version) => {
    const check = kubernetesCheck(version);
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
    const faults = (await operatorFaults([monitor, rule])).join("\n");
    expect(faults).toMatch(/"intervall"' does not exist/);
    expect(faults).toMatch(/scrapeTimeout must match pattern/);
    expect(faults).toMatch(/'number' is not assignable to type 'string'/);
  });
});

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

  it.each<[string, Anything, RegExp]>([
    [
      "a setting that is misspelled",
      { config: { budget: { limitt: "1/1m" } } },
      /'\/config\/budget'.*'limitt' not allowed/,
    ],
    [
      "a setting of the wrong type",
      { config: { cache: { ttl: { sold: 60 } } } },
      /'\/config\/cache\/ttl\/sold': got number, want string/,
    ],
    ["a value that is misspelled", { privateKy: {} }, /'privateKy' not allowed/],
    ["a value of the wrong type", { replicaCount: "two" }, /'\/replicaCount': got string, want integer/],
    [
      "replicas without Redis",
      { replicaCount: 2 },
      /2 replicas without Redis: each would have the whole budget/,
    ],
    ["scaling without Redis", { autoscaling: { enabled: true } }, /5 replicas without Redis/],
    [
      "scaling from more to fewer",
      { redis: { url: "redis://r" }, autoscaling: { enabled: true, minReplicas: 6 } },
      /maxReplicas is less than/,
    ],
    [
      "two places for Redis",
      { redis: { url: "redis://r", trial: { enabled: true } } },
      /expected one of redis\.existingSecret/,
    ],
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
      "a volume beside Redis",
      { redis: { url: "redis://r" }, persistence: { enabled: true } },
      /persistence is for a gateway without Redis/,
    ],
    [
      "fewer replicas for the budget than run",
      { redis: { url: "redis://r" }, replicaCount: 3, config: { budget: { replicas: 2 } } },
      /config\.budget\.replicas is less than the 3/,
    ],
    ["a relative directory", { config: { dataDir: "./data" } }, /config\.dataDir is not absolute/],
    [
      "two lists of what is kept warm",
      { warmUrls: [{ url: "/areas?q=Nacka" }], config: { warm: { file: "/w.yaml" } } },
      /warmUrls and config\.warm\.file are both set/,
    ],
    ["any free port", { config: { server: { port: 0 } } }, /config\.server\.port is 0/],
  ])("is refused with %s", (_, values, message) => {
    expect(refusal(minimalWith(values))).toMatch(message);
  });

  it.each([
    ["upstream", "privateKey"],
    ["redis", "url"],
    ["admin", "token"],
  ])("never takes config.%s.%s, which would be for many to read", (section, name) => {
    const secret = "redis://:secret@redis.example";
    const message = refusal(minimalWith({ config: { [section]: { [name]: secret } } }));
    expect(message).toMatch(`config.${section}.${name} would stand in a ConfigMap`);
    expect(message).not.toContain(secret);
  });

  it.each<[string, Values, RegExp]>([
    ["the address of Redis", { redis: { url: "Secret#1" } }, /redis\.url is not an address/],
    [
      "the password of its Redis",
      { redis: { trial: { enabled: true, password: "Secret#1" } } },
      /redis\.trial\.password is not of letters and digits/,
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
    expect(few).toMatch(/spent of the budget is forgotten/);
    expect(notes(valuesOf("no-redis"))).not.toMatch(/assumed|forgotten/);
    expect(notes(valuesOf("trial"))).toMatch(/for trials/);
    expect(notes(valuesOf("full"))).not.toMatch(/assumed|Without Redis|for trials/);
  });
});
