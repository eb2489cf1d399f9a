import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";

import {
  type Anything,
  CHART,
  find,
  isPartOf,
  minimalWith,
  podOf as pod,
  render,
  type Values,
  valuesOf,
} from "../support/chart.ts";
import type { Manifest } from "../support/kubernetes-check.ts";
import { promtool } from "../support/tools.ts";

const full = render(valuesOf("full"));
const trial = render(valuesOf("trial"));

describe("what callers use", () => {
  it("is a Service with what its type allows", () => {
    const values: Anything = valuesOf("full")["service"];
    const { spec, metadata } = find(full, "Service", "gateway");
    const { type, loadBalancerClass, loadBalancerSourceRanges, externalTrafficPolicy } = values;
    expect(spec).toMatchObject({
      type,
      loadBalancerClass,
      loadBalancerSourceRanges,
      externalTrafficPolicy,
      ports: [{ port: values.port, nodePort: values.nodePort }],
    });
    expect(metadata.labels).toMatchObject(values.labels);
    expect(find(full, "Service", "admin").spec.type).toBe("ClusterIP");
    const few = find(render(valuesOf("minimal")), "Service", "gateway").spec;
    expect(few).not.toHaveProperty("loadBalancerClass");
    expect(few.ports[0]).not.toHaveProperty("nodePort");
  });

  it("is an Ingress and a route to the Service for callers, if the values say so", () => {
    const { name } = find(full, "Service", "gateway").metadata;
    const ingress = find(full, "Ingress").spec;
    const backend = { service: { name, port: { number: 8080 } } };
    expect(ingress).toMatchObject({
      ingressClassName: "nginx",
      tls: [{ secretName: "gateway-tls", hosts: ["gateway.acme.example"] }],
      rules: [
        { host: "gateway.acme.example", http: { paths: [{ path: "/", pathType: "Prefix", backend }] } },
        { host: "www.acme.example", http: { paths: [{ path: "/property", pathType: "Prefix", backend }] } },
      ],
    });
    const { httpRoute }: Anything = valuesOf("full");
    expect(find(full, "HTTPRoute").spec).toEqual({
      parentRefs: httpRoute.parentRefs,
      hostnames: httpRoute.hostnames,
      rules: [{ ...httpRoute.rules[0], backendRefs: [{ name, port: 8080 }] }],
    });
    expect(trial.filter(({ kind }) => kind === "Ingress" || kind === "HTTPRoute")).toEqual([]);
  });
});

describe("TLS", () => {
  const tls = { tls: { certFile: "/certificates/tls.crt", keyFile: "/certificates/tls.key" } };

  it("of a port is known to its Service, its probes, its scrapes and `helm test`", () => {
    const values = minimalWith({ config: { server: tls, admin: tls }, serviceMonitor: { enabled: true } });
    const manifests = render(values);
    for (const component of ["gateway", "admin"])
      expect(find(manifests, "Service", component).spec.ports[0].appProtocol).toBe("https");
    const [{ startupProbe, livenessProbe, readinessProbe }] = pod(manifests).spec.containers;
    for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe])
      expect(httpGet).toMatchObject({ port: "admin", scheme: "HTTPS" });
    expect(find(manifests, "ServiceMonitor").spec.endpoints[0].scheme).toBe("https");
    const urls = find(manifests, "Pod", "test").spec.containers[0].env.slice(0, 2);
    for (const { value } of urls) expect(value).toMatch(/^https:/);
  });

  it("of one port leaves the other one alone", () => {
    const manifests = render(minimalWith({ config: { server: tls } }));
    expect(find(manifests, "Service", "gateway").spec.ports[0].appProtocol).toBe("https");
    expect(find(manifests, "Service", "admin").spec.ports[0].appProtocol).toBe("http");
    expect(pod(manifests).spec.containers[0].livenessProbe.httpGet).not.toHaveProperty("scheme");
  });
});

it("every resource has the common labels and annotations, and extra ones can be templates", () => {
  const { commonLabels, commonAnnotations }: Anything = valuesOf("full");
  const extra = full.filter(({ metadata }) => /-(notes|text)$/.test(metadata.name));
  expect(extra.map(({ metadata }) => metadata.name)).toEqual(["gateway-notes", "gw-text"]);
  for (const { kind, metadata } of full.filter((manifest) => !extra.includes(manifest))) {
    expect([kind, metadata]).toMatchObject([kind, { labels: commonLabels, annotations: commonAnnotations }]);
  }
});

describe("the network policy", () => {
  const portsOf = (rule: Anything): number[] => rule.ports.map(({ port }: Anything) => port);
  const policy = (values: Values): Anything =>
    find(
      render(values).filter(({ metadata }) => !metadata.name.endsWith("-redis")),
      "NetworkPolicy",
    ).spec;

  it("lets callers in, and operators from its own namespace", () => {
    const few = render(valuesOf("minimal"));
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
    [
      "cluster",
      [
        [53, 53],
        [443, 3128],
        [7000, 7001],
      ],
    ],
    ["full", [[53, 53, 5353, 5353], [443, 8080], [6379], [4318]]],
  ])("with the values of %s allows DNS, the API, Redis and nothing else", (name, ports) => {
    expect(policy(valuesOf(name)).egress.map(portsOf)).toEqual(ports);
  });

  it("takes its peers from the values", () => {
    const { networkPolicy }: Anything = valuesOf("full");
    const { ingress, egress } = policy(valuesOf("full"));
    expect(ingress[0].from).toEqual(networkPolicy.callers.from);
    expect(ingress[1].from).toEqual(networkPolicy.admin.from);
    expect(ingress[3]).toEqual(networkPolicy.extraIngress[0]);
    const [dns, upstream, redis] = egress;
    expect([dns.to, upstream.to, redis.to]).toEqual(
      ["dns", "upstream", "redis"].map((name) => networkPolicy[name].to),
    );
  });

  it("of the trial Redis admits the gateway, and allows no egress", () => {
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

  const rulesOf = (manifests: readonly Manifest[]): Anything[] =>
    find(manifests, "PrometheusRule").spec.groups.flatMap(({ rules }: Anything) => rules);

  it("installs the same rules as files/rules.yaml, but for the name of the job", () => {
    const rules = parse(readFileSync(`${CHART}/files/rules.yaml`, "utf8"));
    const few = render(minimalWith({ prometheusRule: { enabled: true } }));
    const text = JSON.stringify(find(few, "PrometheusRule").spec);
    expect(JSON.parse(text.replace("gw-property-gateway-admin", ".*property-gateway.*"))).toEqual(rules);
    const service = find(few, "Service", "admin").metadata.name;
    expect(text).toContain(`up{job=~\\"${service}\\"} == 0`);
  });

  it("takes thresholds, severities, durations and labels of alerts from the values, and leaves alerts out", () => {
    const rules = rulesOf(full);
    const changed = rules.find(({ alert }) => alert === "GatewayBudgetNearlySpent");
    expect(changed).toMatchObject({
      expr: "job_window:gateway_budget_remaining:ratio < 0.05",
      for: "30m",
      labels: { severity: "info", team: "platform" },
      annotations: { runbook_url: "https://wiki.acme.example/gateway#gatewaybudgetnearlyspent" },
    });
    expect(changed.annotations).not.toHaveProperty("runbook");
    const names = rules.flatMap(({ alert }) => alert ?? []);
    expect(names).not.toContain("GatewayUnidentifiedApps");
    expect(names).toContain("GatewayVersionsDiffer");
    const file = join(mkdtempSync(join(tmpdir(), "property-gateway-test-")), "rules.yaml");
    onTestFinished(() => rmSync(dirname(file), { recursive: true }));
    writeFileSync(file, JSON.stringify(find(full, "PrometheusRule").spec));
    const { status, output } = promtool("check", "rules", "--lint=all", "--lint-fatal", file);
    expect(status, output).toBe(0);
  });

  it("installs the dashboard", () => {
    const dashboard = find(
      full.filter(({ metadata }) => metadata.name.endsWith("-dashboard")),
      "ConfigMap",
    );
    expect(dashboard.data["property-gateway.json"]).toBe(
      readFileSync(`${CHART}/files/dashboard.json`, "utf8"),
    );
    expect(dashboard.metadata.labels["grafana_dashboard"]).toBe("yes");
    for (const kind of ["ServiceMonitor", "PrometheusRule"])
      expect(find(full, kind).metadata.namespace).toBe("monitoring");
    expect(find(full, "ServiceMonitor").spec.namespaceSelector).toEqual({ matchNames: ["apps"] });
  });

  it("is off by default, because the cluster may not know its kinds", () => {
    expect(render(valuesOf("minimal")).map(({ apiVersion }) => apiVersion)).not.toContain(
      "monitoring.coreos.com/v1",
    );
  });
});
