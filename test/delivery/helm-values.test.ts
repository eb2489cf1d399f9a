/** What single values of the chart do. */
import { describe, expect, it } from "vitest";

import { RULE_GROUPS } from "../support/alert-rules.ts";
import { CHART, find, helm, minimalWith, refusal, render, type Values, valuesOf } from "../support/chart.ts";
import type { Anything } from "../support/files.ts";

it("the alerts are those of deploy/prometheus, with the changes from the values", () => {
  const rulesWith = (prometheusRule: Values): Map<string, Anything> => {
    const values = minimalWith({ prometheusRule: { enabled: true, ...prometheusRule } });
    const { groups } = find(render(values), "PrometheusRule").spec;
    return new Map(
      groups.flatMap(({ rules }: Anything) => rules.map((one: Anything) => [one.alert ?? one.record, one])),
    );
  };
  const own = new Map(RULE_GROUPS.flatMap(({ rules }) => rules.map((one) => [one.alert ?? one.record, one])));
  const jobs = ({ expr }: { expr: string }): string =>
    expr.replace(".*property-gateway.*", "gw-property-gateway-admin");
  expect(rulesWith({})).toEqual(new Map([...own].map(([name, one]) => [name, { ...one, expr: jobs(one) }])));

  const changed = rulesWith({
    runbookUrl: "https://wiki.example/gateway",
    alertLabels: { team: "platform" },
    alerts: {
      GatewayErrors: { severity: "warning", threshold: 0.2, keep_firing_for: "5m" },
      GatewayDown: { enabled: false },
    },
  });
  expect(changed.has("GatewayDown")).toBe(false);
  const errors = changed.get("GatewayErrors");
  expect(errors).toMatchObject({
    keep_firing_for: "5m",
    labels: { severity: "warning", team: "platform" },
    annotations: { runbook_url: "https://wiki.example/gateway#gatewayerrors" },
  });
  expect(errors?.expr.match(/[\d.]+ # threshold/g)).toEqual(["0.2 # threshold", "0.2 # threshold"]);
  expect(changed.get("GatewaySlow")?.labels).toEqual({ severity: "warning", team: "platform" });
});

describe("a change of settings", () => {
  const podOf = (values: Values): unknown =>
    find(render(minimalWith(values)), "Deployment", "gateway").spec.template;
  const before = podOf({});

  it.each([
    ["apps", { apps: [{ id: "web" }] }],
    ["the budget", { budget: { limit: "30/1m" } }],
  ])("leaves the pods alone that can read it: %s", (_, config) => {
    expect(podOf({ config })).toEqual(before);
    expect(podOf({ config, reload: "restart" })).not.toEqual(podOf({ reload: "restart" }));
  });

  it("starts new pods if a running gateway cannot change it", () => {
    expect(podOf({ config: { query: { maxLimit: 1000 } } })).not.toEqual(before);
    expect(podOf({ config: { cache: { maxBytes: "128MiB" } } })).not.toEqual(before);
  });
});

it("nothing is installed with enabled: false", () => {
  expect(helm(["template", "gw", CHART], minimalWith({ enabled: false })).stdout.trim()).toBe("");
});

it("the disk of a pod without a volume has a size, which must hold the settings' most", () => {
  const { volumes } = find(render(valuesOf("minimal")), "Deployment", "gateway").spec.template.spec;
  expect(volumes).toContainEqual({ name: "data", emptyDir: { sizeLimit: "2Gi" } });
  const config = { cache: { maxDiskBytes: "2GiB" } };
  expect(refusal(minimalWith({ config }))).toMatch(/persistence\.size is 2Gi, but .*maxDiskBytes is 2GiB/);
});

it("calls may leave the pod, also by a proxy, and so may traces, if there are any", () => {
  const portsWith = (env: Readonly<Record<string, string>>, tracing = {}): unknown[] => {
    const extraEnv = Object.entries(env).map(([name, value]) => ({ name, value }));
    const { spec } = find(render(minimalWith({ extraEnv, networkPolicy: { tracing } })), "NetworkPolicy");
    return spec.egress.slice(1).flatMap(({ ports }: Anything) => ports.map(({ port }: Anything) => port));
  };
  const ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  expect(portsWith({})).toEqual([443]);
  expect(portsWith({ https_proxy: "http://user:pass^word@proxy.example:3128" })).toEqual([443, 3128]);
  expect(portsWith({ [ENDPOINT]: "https://collector.example/v1/traces" })).toEqual([443, 443]);
  expect(portsWith({ [ENDPOINT]: "http://collector:4319", OTEL_TRACES_EXPORTER: "none" })).toEqual([443]);
  expect(portsWith({ OTEL_TRACES_EXPORTER: "otlp" })).toEqual([443, 4318]);
  expect(portsWith({}, { ports: [4444] })).toEqual([443, 4444]);
});
