import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import type { Config } from "../../src/config/config.ts";
import { openSettings } from "../../src/config/load.ts";
import { SETTINGS } from "../../src/config/settings.ts";
import { parseQuantity } from "../../src/config/settings/units.ts";
import { ask } from "../support/ask.ts";
import { composeFile, type Service } from "../support/compose.ts";
import { type Anything, fileWith } from "../support/files.ts";
import { startDns, startNginx, startReplicas } from "../support/nginx.ts";
import { redisForTest } from "../support/redis.ts";
import { checkJsonschema, promtool } from "../support/tools.ts";

// The checker is loaded once, over the network.
const OBTAINING_MS = 300_000;

const compose = composeFile();
const services = Object.entries(compose.services);

function service(name: string): Service {
  const found = compose.services[name];
  if (!found) throw new Error(`compose.yaml has no service ${name}`);
  return found;
}

/** The settings the gateway of compose.yaml would start with. */
function gatewayConfig(): Config {
  const env = service("gateway").environment ?? {};
  return openSettings({ env }).first.config;
}

describe("compose.yaml", () => {
  it("is what the Compose Specification's own schema allows", { timeout: OBTAINING_MS }, () => {
    // Beside a file that is wrong, which shows that mistakes are found.
    const wrong = fileWith("services: { a: { image: b, read_onyl: true } }\n", "compose.yaml");
    const schema = ["--builtin-schema", "vendor.compose-spec"];
    const { status, output } = checkJsonschema(...schema, "--output-format", "json", "compose.yaml", wrong);
    const message: unknown = expect.stringContaining("read_onyl");
    expect([status, JSON.parse(output)]).toMatchObject([1, { errors: [{ filename: wrong, message }] }]);
  });

  it.each(services)("gives %s no more than it needs", (name, one) => {
    const { read_only, cap_drop, security_opt, ports = [], volumes = [], image, build } = one;
    const hardened = { read_only: true, cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] };
    expect({ read_only, cap_drop, security_opt }, name).toEqual(hardened);
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    expect(image).toMatch(build ? /^property-gateway:local$/ : /:v?\d+\.\d+[\w.-]*$/);
    for (const { source, isFile, readOnly } of volumes.map(toMount)) {
      const isThere = isFile ? existsSync(source) : Object.keys(compose.volumes).includes(source);
      expect([source, isThere, readOnly]).toEqual([source, true, isFile]);
    }
    for (const [other, { condition }] of Object.entries<Anything>(one["depends_on"] ?? {})) {
      expect([other, condition]).toEqual([other, "service_healthy"]);
      // The gateway's own check is in the image (image.long.ts).
      expect(other === "gateway" || service(other)["healthcheck"] !== undefined, other).toBe(true);
    }
  });
});

it("the gateway in compose.yaml can start, three times, and is let in by the sandbox", () => {
  const names = SETTINGS.flatMap(({ env = [], secretEnv = [] }) => [env, secretEnv].flat());
  const { environment = {}, stop_grace_period: grace = "", ...gateway } = service("gateway");
  expect(names).toEqual(expect.arrayContaining(Object.keys(environment)));
  expect(gateway).not.toHaveProperty("ports");
  const { admin, redis, budget, server, upstream } = gatewayConfig();
  expect([admin.host, redis?.url.reveal(), budget.replicas]).toEqual(["0.0.0.0", "redis://redis:6379", 3]);
  expect(parseQuantity(grace)).toBeGreaterThan(server.stopDelayMs + server.drainTimeoutMs);
  expect(new URL(upstream.url).hostname).toBe("sandbox");
  expect(service("sandbox").command).toEqual(
    expect.arrayContaining([
      `--service=${upstream.service}`,
      `--caller-id=${upstream.callerId}`,
      `--private-key=${upstream.privateKey.reveal()}`,
      `--port=${new URL(upstream.url).port}`,
    ]),
  );
});

describe("the proxy in compose.yaml", () => {
  const CONFIG = "deploy/nginx/nginx.conf";

  it("has the published ports, and passes each on to that of the gateway", () => {
    const { server, admin } = gatewayConfig();
    const inside = [server.port, admin.port].map(String);
    const { ports, volumes } = service("proxy");
    expect(volumes).toEqual([`./${CONFIG}:/etc/nginx/nginx.conf:ro`]);
    expect(ports?.map((port) => port.split(":")[2])).toEqual(inside);
    const text = readFileSync(CONFIG, "utf8");
    const passed = [...text.matchAll(/listen (\d+);\s+server_name[^}]*? gateway:(\d+);/g)];
    expect(passed.map(([, from, to]) => [from, to])).toEqual(inside.map((port) => [port, port]));
  });

  it("spreads requests over all replicas, leaves out one that has stopped, and finds a new one", async () => {
    const [first, second, third] = ["127.0.0.2", "127.0.0.3", "127.0.0.4"] as const;
    const dns = await startDns("gateway", [first, second]);
    const [{ port }, stopped] = await startReplicas(first, second, third);
    const proxy = await startNginx(CONFIG, { resolver: `127.0.0.1:${dns.port} valid=1s`, port });
    const answered = async (): Promise<Set<string>> => {
      const replies = await Promise.all(Array.from({ length: 20 }, () => ask(`${proxy.url}/areas?q=x`)));
      for (const { status } of replies) expect(status).toBe(200);
      return new Set(replies.map(({ text }) => text));
    };
    await expect.poll(answered).toEqual(new Set([first, second]));

    await stopped?.close();
    expect(await answered()).toEqual(new Set([first]));

    dns.addresses = [first, third];
    await expect.poll(answered).toEqual(new Set([first, third]));
  });

  it("passes on the gateway's own errors, and the caller's headers", async () => {
    const dns = await startDns("gateway", ["127.0.0.2"]);
    const [only] = await startReplicas("127.0.0.2");
    const proxy = await startNginx(CONFIG, { resolver: `127.0.0.1:${dns.port}`, port: only.port });
    const reply = await ask(`${proxy.url}/refuse?a=%20b`, { headers: { "x-app-id": "web" } });
    expect([reply.status, reply.headers["retry-after"]]).toEqual([503, "7"]);
    expect(only.requests).toMatchObject([
      { url: "/refuse?a=%20b", headers: { "x-app-id": "web", "x-forwarded-for": "127.0.0.1" } },
    ]);
    // A name that a web page may have pointed to this machine.
    for (const url of [proxy.url, proxy.adminUrl]) {
      expect((await ask(`${url}/x`, { headers: { host: "evil.example" } })).status).toBe(421);
      expect((await ask(`${url}/x`, { headers: { host: "localhost" } })).status).toBe(200);
    }
  });
});

it("Redis in compose.yaml starts with its arguments, keeps its data, and evicts only keys with an expiry", async () => {
  const { command: [program, ...options] = [], volumes } = service("redis");
  const redis = await redisForTest(...options);
  const setting = (name: string): Promise<unknown> => redis.command("CONFIG", "GET", name);
  expect(await setting("appendonly")).toEqual(["appendonly", "yes"]);
  expect(await setting("maxmemory-policy")).toEqual(["maxmemory-policy", "volatile-lru"]);
  expect([program, volumes]).toEqual(["redis-server", ["redis:/data"]]);
  await redis.command("SET", "key", "value");
  await redis.kill();
  await redis.restart();
  expect(await redis.command("GET", "key")).toBe("value");
});

it("Prometheus in compose.yaml accepts its settings and rules", () => {
  const file = fileWith(withOurPaths(readFileSync("deploy/prometheus/prometheus.yml", "utf8")));
  const { status, output } = promtool("check", "config", file);
  expect([status, output]).toEqual([0, expect.stringMatching(/SUCCESS: \d+ rules found/)]);
});

it("Grafana in compose.yaml asks the Prometheus that is there, and finds the dashboard", () => {
  const provisioned = (path: string): unknown =>
    parse(readFileSync(`deploy/grafana/provisioning/${path}.yaml`, "utf8"));
  expect(provisioned("datasources/prometheus")).toMatchObject({
    datasources: [{ url: "http://prometheus:9090", isDefault: true }],
  });
  expect(service("prometheus").ports).toEqual([expect.stringMatching(/:9090$/)]);
  const { volumes = [], environment } = service("grafana");
  const { source = "", target = "" } =
    volumes.map(toMount).find(({ source: one }) => one.endsWith("dashboard.json")) ?? {};
  const options = { path: dirname(target) };
  expect(provisioned("dashboards/property-gateway")).toMatchObject({ providers: [{ options }] });
  expect(environment).toMatchObject({ GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: target });
  expect(statSync(source).isFile()).toBe(true);
});

/** A volume. Its source is a file or directory of this tree, or the name of a volume. */
function toMount(volume: string) {
  const [source = "", target = "", mode] = volume.split(":");
  return { source, target, isFile: source.startsWith("./"), readOnly: mode === "ro" };
}

/** Prometheus' settings as they would be if what is mounted into its container were at the same place here. */
function withOurPaths(text: string): string {
  return (service("prometheus").volumes ?? [])
    .map(toMount)
    .filter(({ isFile }) => isFile)
    .reduce((changed, { source, target }) => changed.replaceAll(target, join(process.cwd(), source)), text);
}
