/** The chart: golden renders of the example values, what it refuses, and one real start. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";

import { describe, expect, it, onTestFinished } from "vitest";
import { parse, stringify } from "yaml";

import { openSettings } from "../../src/config/load.ts";
import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "../support/ask.ts";
import {
  CHART,
  containerEnvironment,
  find,
  helm,
  minimalWith,
  overlaid,
  ownSecrets,
  refusal,
  render,
  VALUE_FILES,
  type Values,
  valuesOf,
} from "../support/chart.ts";
import type { Anything } from "../support/files.ts";
import { CALLER } from "../support/gateway.ts";
import { KUBERNETES_VERSIONS } from "../support/tools.ts";
import { customFaults, isCustom, kubernetesCheck, type Manifest } from "../support/kubernetes-check.ts";
import { run } from "../support/process.ts";

const TLS = { tls: { certFile: "/certificates/tls.crt", keyFile: "/certificates/tls.key" } };
const EXAMPLES: readonly (readonly [string, Values])[] = [
  ...VALUE_FILES.map((name): [string, Values] => [name, valuesOf(name)]),
  ["tls", minimalWith({ config: { server: TLS, admin: TLS }, serviceMonitor: { enabled: true } })],
];

/** One check for each version: it compiles each schema once. */
const CHECKS = KUBERNETES_VERSIONS.map((version) => kubernetesCheck(version));

/** The manifests without what differs each time or has a test of its own (alerts, dashboard). */
function golden(manifests: readonly Manifest[]): string {
  const shown = manifests.map((manifest: Anything) => {
    const { kind, metadata, data } = manifest;
    if (kind === "PrometheusRule") return { ...manifest, spec: "files/rules.yaml" };
    if (kind === "ConfigMap" && metadata.name.endsWith("-dashboard"))
      return { ...manifest, data: "files/dashboard.json" };
    if (kind === "Secret" && "admin-token" in data && metadata.name.endsWith("-admin-token"))
      return { ...manifest, data: { "admin-token": "(random)" } };
    return manifest;
  });
  return shown.map((manifest) => stringify(manifest, { lineWidth: 0 })).join("---\n");
}

describe.each(EXAMPLES)("the chart with the values of %s", (name, values) => {
  const manifests = render(values);

  // Run with `--update` after an intended change, and read the difference.
  it("is rendered as before, by Helm 4 and 3", async () => {
    await expect(golden(manifests)).toMatchFileSnapshot(`golden/${name}.yaml`);
    expect(golden(render(values, 3))).toBe(golden(manifests));
  });

  it("passes `helm lint --strict`, and is what Kubernetes knows, to the last field", () => {
    const { succeeded, stdout, stderr } = helm(["lint", "--strict", CHART], values);
    expect([succeeded, stdout + stderr]).toEqual([true, expect.not.stringMatching(/\[(WARNING|ERROR)\]/)]);
    for (const check of CHECKS)
      expect(manifests.filter((manifest) => !isCustom(manifest)).flatMap(check)).toEqual([]);
    const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
  });
});

it("the custom resources are what the Prometheus operator and the Gateway API know", async () => {
  const custom = EXAMPLES.flatMap(([, values]) => render(values).filter(isCustom));
  expect(new Set(custom.map(({ kind }) => kind))).toEqual(
    new Set(["HTTPRoute", "PrometheusRule", "ServiceMonitor"]),
  );
  expect(await customFaults(custom)).toEqual([]);
});

it("the checks see wrong types and unknown fields", async () => {
  const deployment = structuredClone(find(render(valuesOf("full")), "Deployment", "gateway"));
  const [container] = deployment.spec.template.spec.containers;
  container.livenessProb = container.livenessProbe;
  container.ports[0].containerPort = "8080";
  for (const check of CHECKS)
    expect(check(deployment)).toEqual([
      expect.stringMatching(/must NOT have additional .*livenessProb"/),
      expect.stringMatching(/containerPort: must be integer/),
    ]);
  const monitor = structuredClone(find(render(valuesOf("full")), "ServiceMonitor"));
  monitor.spec.endpoints[0].scrapeTimeout = "5 s";
  expect((await customFaults([monitor])).join()).toMatch(/scrapeTimeout must match pattern/);
});

type Mistake = Record<"what" | "says", string> & { readonly values: Values };

const MISTAKES: Readonly<Record<string, readonly Mistake[]>> = parse(
  readFileSync("test/delivery/refusals.yaml", "utf8"),
);

describe("an install", () => {
  it("needs four values, and names those that are missing", () => {
    const message = refusal({});
    expect(message).toMatch(/config\.upstream\.url is missing: the address of the property API/);
    expect(message).toMatch(/config\.upstream\.callerId is missing: your caller id/);
    expect(message).toMatch(/config\.budget\.limit is missing: the limits that you have agreed on/);
    expect(message).toMatch(/the private key is missing: name the Secret .* privateKey\.existingSecret/);
    expect(refusal(valuesOf("minimal"))).toBe("");
    const upstream = { url: "http://sandbox:4000", callerId: "demo" };
    expect(refusal({ config: { upstream }, privateKey: { value: "k" } })).toBe("");
  });

  it.each(Object.entries(MISTAKES))("is refused with values %s", (_, mistakes) => {
    const message = refusal(mistakes.map(({ values }) => values).reduce(overlaid, minimalWith({})));
    expect(message).not.toContain("not-a-password");
    for (const { what, says } of mistakes)
      expect([what, message]).toEqual([what, expect.stringMatching(says)]);
  });

  it.each(["upstream.privateKey", "upstream.proxy.https", "redis.url", "redis.password", "admin.token"])(
    "never takes config.%s, which many could read there",
    (name) => {
      const secret = "http://user:secret@redis.example";
      const config = name.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), secret);
      const message = refusal(minimalWith({ config }));
      expect(message).toMatch(/would be readable in a ConfigMap|not allowed/);
      expect(message).not.toContain(secret);
    },
  );

  it("makes a token for the admin port if none is given, and its notes say how to read it", () => {
    const newToken = (): string => {
      const { stdout } = helm(["template", "gw", CHART], valuesOf("minimal"));
      return atob(/admin-token: "([^"]+)"/.exec(stdout)?.[1] ?? "");
    };
    expect(newToken()).toMatch(/^[A-Za-z0-9]{40}$/);
    expect(newToken()).not.toBe(newToken());
    const install = ["install", "gw", CHART, "--dry-run=client", "--namespace", "apps"];
    const notes = (values: Values): string => helm(install, values).stdout.split("NOTES:")[1] ?? "";
    expect(notes(valuesOf("minimal"))).toContain(
      "kubectl --namespace apps get secret gw-property-gateway-admin-token --output jsonpath='{.data.admin-token}'",
    );
    expect(notes(valuesOf("full"))).toMatch(/get secret operators --output jsonpath='\{\.data\.token\}'/);
    const own = minimalWith({ config: { server: TLS, admin: { ...TLS, tokenFile: "/vault/token" } } });
    expect(notes(own)).not.toMatch(/needs a token/);
    expect(notes(own)).toMatch(/ https:\/\/gw-property-gateway\.apps:80\n[^]* curl --insecure https:/);
    expect(ownSecrets(render(own))).toEqual({});
  });
});

const EXISTING_SETTINGS = `
upstream: { url: https://api.example.com, imageUrl: https://api.example.com, service: propertyservice, callerId: acme, referrer: https://acme.example, userAgent: acme }
budget: { limit: "60/1m" }
`;
/** The Secrets and the ConfigMap that the example values refer to. */
const EXISTING = {
  upstream: { "private-key": CALLER.privateKey, key: CALLER.privateKey },
  redis: { address: "redis://127.0.0.1:1" },
  "redis-password": { "only-password": "Password-of-Redis" },
  sentinels: { "only-password": "Password-of-Sentinels" },
  proxy: { address: "http://127.0.0.1:1" },
  "gateway-settings": { "gateway.yaml": EXISTING_SETTINGS },
  operators: { token: "Only-for-operators-0123456789-abcdef" },
};
const ANY_PORTS = { HOST: "127.0.0.1", PORT: "0", ADMIN_PORT: "0" };
const READY = /"callers":"(http:[^"]+)","admin":"http:[^"]+:(\d+)"/;

it.each(VALUE_FILES)(
  "the gateway accepts the settings that the container gets with the values of %s",
  (name) => {
    const env = containerEnvironment(render(valuesOf(name)), EXISTING);
    const { upstream } = openSettings({ env }).first.config;
    expect(upstream.privateKey.reveal()).toBe(name === "no-redis" ? "not-a-real-key" : CALLER.privateKey);
  },
);

it("the chart's gateway answers, names the caller, protects its admin port, and passes `helm test`", async () => {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 50, sold: 50 } });
  onTestFinished(sandbox.close);
  const { url } = await sandbox.listen();
  const upstream = { url, callerId: CALLER.callerId, service: CALLER.service };
  const manifests = render(minimalWith({ config: { upstream } }));
  const gateway = run(["gateway"], { ...containerEnvironment(manifests, EXISTING), ...ANY_PORTS });
  const [, callers = "", port = ""] = await gateway.says(READY);
  const admin = `http://127.0.0.1:${port}`;
  expect((await ask(`${callers}/listings?limit=3`)).status).toBe(200);
  expect(sandbox.requests()[0]).toMatchObject({ userAgent: `property-gateway/0.2.0 (${CALLER.callerId})` });
  const { "admin-token": token = "" } = ownSecrets(manifests)["gw-property-gateway-admin-token"] ?? {};
  const statusOf = async (path: string, headers = {}): Promise<number> =>
    (await ask(admin + path, { headers })).status;
  expect(await statusOf("/budget", { authorization: `Bearer ${token}` })).toBe(200);
  expect(await statusOf("/budget")).toBe(401);
  expect(await statusOf("/metrics")).toBe(200);
  expect(await statusOf("/livez")).toBe(200);

  const { command, args } = find(manifests, "Pod", "test").spec.containers[0];
  const test = (env: Record<string, string>): Promise<unknown[]> =>
    once(spawn(process.execPath, [...command.slice(1), ...args], { env, stdio: "ignore" }), "close");
  expect(await test({ CALLERS: callers, ADMIN: admin })).toEqual([0, null]);
  expect(await test({ CALLERS: callers, ADMIN: callers })).toEqual([1, null]);
});
