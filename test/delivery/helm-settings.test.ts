import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";

import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod";

import { DEFAULTS, SETTINGS } from "../../src/config/schema.ts";
import { readEnvironment } from "../../src/config/env.ts";
import { mergeSources, valueAt } from "../../src/config/sources.ts";
import { parseSettingsFile } from "../../src/config/yaml-file.ts";
import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "../support/ask.ts";
import {
  type Anything,
  containerEnvironment,
  find,
  minimalWith,
  overlaid,
  ownSecrets,
  render,
  type Values,
  VALUE_FILES,
  valuesOf,
} from "../support/chart.ts";
import { CALLER } from "../support/gateway.ts";
import { run } from "../support/process.ts";
import { startRedis } from "../support/redis.ts";

/** The Secrets that the example values refer to. */
const EXISTING = {
  upstream: { "private-key": CALLER.privateKey, key: CALLER.privateKey },
  redis: { address: "redis://127.0.0.1:1" },
  "redis-password": { "only-password": "Password-of-Redis" },
  sentinels: { "only-password": "Password-of-Sentinels" },
  proxy: { address: "http://127.0.0.1:1" },
  operators: { token: "Only-for-operators-0123456789-abcdef" },
};
const ANY_PORTS = { HOST: "127.0.0.1", PORT: "0", ADMIN_PORT: "0" };
const READY = /"callers":"(http:[^"]+)","admin":"http:[^"]+:(\d+)"/;

describe("the container with the values of any example", () => {
  it("accepts its settings, together too, is ready, and ends when told", async () => {
    // All at once: without its Redis, each needs a few seconds to be ready.
    const outcomes = VALUE_FILES.map(async (name) => {
      const env = containerEnvironment(render(valuesOf(name)), EXISTING);
      const gateway = run(["gateway"], { ...env, ...ANY_PORTS, STOP_DELAY: "0ms" });
      const [, , admin] = await gateway.says(READY);
      await expect.poll(async () => (await ask(`http://127.0.0.1:${admin}/readyz`)).status).toBe(200);
      gateway.child.kill("SIGTERM");
      const isSecretShown = gateway.output().includes(CALLER.privateKey);
      return { name, code: await gateway.ended, isSecretShown };
    });
    const good = VALUE_FILES.map((name) => ({ name, code: 0, isSecretShown: false }));
    expect(await Promise.all(outcomes)).toEqual(good);
  });
});

/** The chart's gateway in front of a sandbox. */
async function startFrom(values: Values, env: Record<string, string> = {}) {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 50, sold: 50 } });
  onTestFinished(sandbox.close);
  const { url } = await sandbox.listen();
  const upstream = { config: { upstream: { url, callerId: CALLER.callerId, service: CALLER.service } } };
  const manifests = render(overlaid(values, upstream));
  const gateway = run(["gateway"], { ...containerEnvironment(manifests, EXISTING), ...ANY_PORTS, ...env });
  const [, callers = "", admin = ""] = await gateway.says(READY);
  return { manifests, sandbox, callers, admin: `http://127.0.0.1:${admin}` };
}

describe("the chart's gateway", () => {
  it("answers with three values, names the caller, and passes `helm test`", async () => {
    const { manifests, sandbox, callers, admin } = await startFrom(minimalWith({}));
    expect((await ask(`${callers}/listings?limit=3`)).status).toBe(200);
    const [request] = sandbox.requests();
    expect(request).toMatchObject({ userAgent: `property-gateway/0.2.0 (${CALLER.callerId})` });

    const { command, args, env } = find(manifests, "Pod", "test").spec.containers[0];
    expect(env.map(({ name }: Anything) => name).slice(0, 2)).toEqual(["CALLERS", "ADMIN"]);
    expect(command[0]).toBe("node");
    const test = await node([...command.slice(1), ...args], { CALLERS: callers, ADMIN: admin });
    expect(test).toEqual({ code: 0, output: expect.stringMatching(/readyz: 200.*\n.*no-such-path: 404/) });
    const failed = await node([...command.slice(1), ...args], { CALLERS: callers, ADMIN: callers });
    expect(failed.code).toBe(1);
  });

  it("shares through the chart's own Redis", async () => {
    const values = overlaid(valuesOf("trial"), { privateKey: { value: CALLER.privateKey } });
    const manifests = render(values);
    const redis = await startTrialRedis(manifests);
    const { "redis-url": url = "" } = ownSecrets(manifests)["gw-property-gateway"] ?? {};
    const { name } = find(manifests, "Service", "redis").metadata;
    expect(url).toBe(`redis://:notAnybodysPassword@${name}:6379`);
    const { callers, admin } = await startFrom(values, {
      REDIS_URL: url.replace(`${name}:6379`, `127.0.0.1:${redis.port}`),
    });
    expect((await ask(`${callers}/listings?limit=3`)).status).toBe(200);
    const budget = JSON.parse((await ask(`${admin}/budget`)).text);
    expect(JSON.stringify(budget)).toContain('"shared"');
  });
});

/** A Redis with the arguments of the chart's, but for where it listens and writes. */
async function startTrialRedis(manifests: Anything) {
  const [container] = find(manifests, "Deployment", "redis").spec.template.spec.containers;
  const [{ valueFrom }] = container.env;
  const secret = ownSecrets(manifests)[valueFrom.secretKeyRef.name]?.[valueFrom.secretKeyRef.key] ?? "";
  const args: string[] = container.args;
  expect(args.slice(0, 4)).toEqual(["--port", "6379", "--dir", "/data"]);
  expect(args.slice(-2)).toEqual(["--requirepass", "$(REDIS_PASSWORD)"]);
  const redis = await startRedis(...args.slice(4, -2));
  onTestFinished(redis.close);
  // Kubernetes would insert the password. This test only waits for the server to listen.
  await redis.command("CONFIG", "SET", "requirepass", secret);
  const stranger = connect(redis.port, "127.0.0.1");
  onTestFinished(() => void stranger.destroy());
  stranger.write("PING\r\n");
  expect(String(await once(stranger, "data"))).toMatch(/^-NOAUTH/);
  return redis;
}

async function node(args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, output };
}

/** Where a secret is said, because the settings themselves become a ConfigMap. */
const SECRETS: Readonly<Record<string, (value: unknown) => Values>> = {
  "upstream.privateKey": (value) => ({ privateKey: { existingSecret: "", value } }),
  "redis.url": (url) => ({ redis: { url } }),
  "redis.password": (value) => ({ redis: { url: "redis://redis.example", auth: { value } } }),
  "redis.sentinel.password": (value) => ({
    redis: { url: "redis://redis.example", sentinelAuth: { value } },
  }),
  "upstream.proxy.https": (value) => ({ upstreamProxy: { value } }),
  "upstream.proxy.http": (value) => ({ upstreamProxy: { value } }),
  "admin.token": (value) => ({ adminToken: { value } }),
};

/** What else has to be said. */
const BESIDE: Readonly<Record<string, Values>> = {
  "upstream.privateKeyFile": { privateKey: { existingSecret: "" } },
  // Otherwise a volume is mounted there, which is elsewhere on this machine.
  dataDir: { redis: { url: "redis://redis.example" } },
};

const LISTS = [
  ["_", "utm"],
  ["redis-0.example:6379"],
  ["https://search.example"],
  ["10.0.0.0/8"],
  ["/areas/*"],
  [{ id: "web", weight: 2 }],
];
const ADDRESSES = [
  "/elsewhere/{resource}/{serviceId}",
  "https://other.example/api",
  "redis://redis.example:6380",
  "http://proxy.example:3128",
  "127.0.0.2",
];
const AMOUNTS = ["36d", "7s", "17KiB", "17MiB", "7/1m", "X-Other", "other", 17, 1_700, 0.17, true, false];
/** One of these is valid for any setting that is no choice of words, and not its default. */
const CANDIDATES: readonly unknown[] = [...LISTS, ...ADDRESSES, ...AMOUNTS];

/** The settings, each with another value than its default. */
const OTHERS = SETTINGS.map(({ name, shape, default: written = null, secret = false }) => {
  const choices = shape instanceof z.ZodEnum ? shape.options : [];
  const value = [...choices, ...CANDIDATES].find(
    (candidate) => candidate !== written && z.safeParse(shape, candidate).success,
  );
  return { name, value, isSecret: secret && !name.endsWith("File") };
});

/** The variables that name the files of secrets. */
const FILES: Readonly<Record<string, string>> = {
  "upstream.privateKey": "UPSTREAM_PRIVATE_KEY_FILE",
  "redis.password": "REDIS_PASSWORD_FILE",
  "redis.sentinel.password": "REDIS_SENTINEL_PASSWORD_FILE",
};

/** A setting as the gateway in the container reads it, by its file and its environment. */
function settingAt(values: Values, name: string): unknown {
  const env = containerEnvironment(render(values), EXISTING);
  const secretFile = FILES[name];
  if (secretFile !== undefined) return readFileSync(env[secretFile] ?? "", "utf8");
  const defaults = { name: "the defaults", settings: DEFAULTS, lineOf: () => undefined };
  const file = env["CONFIG_FILE"] ?? "";
  const overlay = parseSettingsFile(file, readFileSync(file, "utf8"));
  return valueAt(mergeSources(defaults, overlay, readEnvironment(env).assignments).merged, name.split("."));
}

const inConfig = (name: string, value: unknown): Values => ({
  config: name.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value),
});

/** What need not be said alone is said in one go. */
const isSaidAlone = ({ name, isSecret }: (typeof OTHERS)[number]): boolean => isSecret || name in BESIDE;
const TOGETHER = OTHERS.filter((setting) => !isSaidAlone(setting))
  .map(({ name, value }) => inConfig(name, value))
  .reduce(overlaid, { redis: { url: "redis://redis.example" } });

describe("the values can set every setting:", () => {
  it.each(OTHERS)("$name", ({ name, value, isSecret }) => {
    expect(value, "one of CANDIDATES must do").toBeDefined();
    const alone = isSecret ? SECRETS[name]?.(value) : overlaid(inConfig(name, value), BESIDE[name] ?? {});
    const said = isSaidAlone({ name, value, isSecret }) ? alone : TOGETHER;
    if (said === undefined) throw new Error(`no value is known to say ${name}`);
    expect(settingAt(minimalWith(said), name)).toEqual(value);
  });

  it("a large number as well", () => {
    const config = { ledger: { maxRecords: 5_000_000 } };
    expect(settingAt(minimalWith({ config }), "ledger.maxRecords")).toBe(5_000_000);
  });
});
