/** A long test, because it builds the image, which installs all packages. dockerfile.test.ts checks the instructions each time. */
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

import { beforeAll, describe, expect, it, onTestFinished } from "vitest";

import { openSettings } from "../../src/config/load.ts";
import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "../support/ask.ts";
import { composeFile } from "../support/compose.ts";
import { temporaryDirectory } from "../support/files.ts";
import { CALLER, gatewayEnv } from "../support/gateway.ts";
import { buildImage, HAS_NAMESPACES, type Image, IS_ROOT } from "../support/image.ts";

const BUILD_MS = 300_000;
const FREE_PORTS = { PORT: "0", ADMIN_PORT: "0" };
const {
  PORT: _port,
  ADMIN_PORT: _adminPort,
  DATA_DIR: _dataDir,
  STOP_DELAY: _stopDelay,
  ...OF_TESTS
} = gatewayEnv();
const SETTINGS = { ...OF_TESTS, BUDGET: "1000/1m" };
const READY = /"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/;

type Packages = Record<"dependencies" | "devDependencies" | "optionalDependencies", Record<string, string>>;
const manifest: Packages & { version: string } = JSON.parse(readFileSync("package.json", "utf8"));

let image: Image;
beforeAll(() => {
  image = buildImage({ REVISION: "0123abc" });
  return image.remove;
}, BUILD_MS);

describe("the image", () => {
  it("holds the code, its settings and what it depends on, and nothing else", () => {
    expect(readdirSync(image.root).sort()).toEqual(["app", "data", "usr"]);
    const inApp = ["config", "node_modules", "package.json", "src"];
    expect(readdirSync(join(image.root, "app")).sort()).toEqual(inApp);
    expect(readdirSync(join(image.root, "app/src"))).not.toContain("sandbox");
    const installed = new Set(installedPackages(join(image.root, "app/node_modules")));
    for (const name of Object.keys(manifest.dependencies)) expect(installed).toContain(name);
    const { devDependencies, optionalDependencies } = manifest;
    for (const name of Object.keys(devDependencies)) expect(installed).not.toContain(name);
    // Node comes from the base image. The rest is for tracing.
    const optional = Object.keys(optionalDependencies);
    expect(optional.filter((name) => installed.has(name))).toEqual(
      optional.filter((name) => name.startsWith("@opentelemetry/")),
    );
    const files = readdirSync(join(image.root, "app/node_modules"), { recursive: true, encoding: "utf8" });
    expect(files.filter((path) => /\.(?:d\.[cm]?ts|map)$/.test(path))).toEqual([]);
  });

  it("says what it is, of which version and revision, names a user by number, not root, and the ports of the gateway", () => {
    expect(image.labels).toMatchObject({
      "org.opencontainers.image.title": "property-gateway",
      "org.opencontainers.image.version": manifest.version,
      "org.opencontainers.image.revision": "0123abc",
    });
    expect(image.user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    const { first } = openSettings({ env: SETTINGS });
    const { server, admin } = first.config;
    expect(image.ports).toEqual([server.port, admin.port]);
  });

  it.runIf(IS_ROOT)("runs as its user and as process 1, without write access to its code", async () => {
    const attempts = ["/app", "/app/src", "/app/config", "/app/node_modules", "/"].map((path) =>
      join(image.root, path, "written"),
    );
    const script = `
      const { writeFileSync } = require("node:fs");
      const attempt = (path) => { try { writeFileSync(path, ""); return "written"; } catch (e) { return e.code; } };
      const { getuid, getgid, pid } = process;
      const attempts = ${JSON.stringify(attempts)}.map(attempt);
      console.log(JSON.stringify({ user: getuid() + ":" + getgid(), first: pid === 1, attempts }));`;
    const contained = image.run(["node", "-e", script]);
    expect(await contained.ended).toBe(0);
    expect(JSON.parse(contained.output())).toEqual({
      user: image.user,
      first: HAS_NAMESPACES,
      attempts: attempts.map(() => "EACCES"),
    });
  });
});

describe("the gateway from the image", () => {
  it("is healthy once it is ready, answers, writes below /data and nowhere else, and ends when told to", async () => {
    const sandbox = createSandbox({ ...CALLER, sizes: { listings: 50, sold: 50 } });
    onTestFinished(sandbox.close);
    const upstream = (await sandbox.listen()).url;
    const temporary = temporaryDirectory();
    chmodSync(temporary, 0o777);
    const untouched = listing(image.root);
    const urls = { UPSTREAM_URL: upstream, UPSTREAM_IMAGE_URL: upstream };
    const env = { ...SETTINGS, ...urls, ...FREE_PORTS, HOME: temporary, TMPDIR: temporary };
    const gateway = image.run([...image.entrypoint, ...image.command], env);
    const [, url = "", admin = ""] = await gateway.says(READY);
    await expect.poll(async () => (await ask(`${admin}/readyz`)).status).toBe(200);
    expect(await health(admin)).toEqual({ code: 0, said: "" });

    const first = await ask(`${url}/listings?limit=3`);
    expect([first.status, first.headers["cache-status"]]).toEqual([200, expect.stringContaining("stored")]);
    expect((await ask(`${url}/listings?limit=3`)).headers["cache-status"]).toContain("hit");
    expect(sandbox.requests()).toHaveLength(1);

    sandbox.hold();
    const inFlight = ask(`${url}/areas?q=Nacka`);
    await sandbox.waitForRequests(2);
    gateway.signal("SIGTERM");
    await gateway.says(/"signal":"SIGTERM"/);
    expect((await health(admin)).code).toBe(1);
    sandbox.release();
    expect((await inFlight).status).toBe(200);
    expect(await gateway.ended).toBe(0);
    expect((await health(admin)).said).toMatch(/ECONNREFUSED/);

    expect(readdirSync(join(image.root, "data"))).toContain("property-gateway.sqlite");
    expect(readdirSync(temporary)).toEqual([]);
    expect(listing(image.root)).toEqual(untouched);
  });

  it("without its settings is not healthy, and says why", async () => {
    const check = image.run(image.healthCheck);
    expect(await check.ended).toBe(1);
    expect(check.output()).toMatch(/upstream\.url/);
  });
});

it(
  "without the optional packages, the gateway answers, and does not start with tracing",
  async () => {
    const small = buildImage({ OMIT: "optional" });
    onTestFinished(small.remove);
    expect(existsSync(join(small.root, "app/node_modules/@opentelemetry/sdk-trace-base"))).toBe(false);
    const env = { ...SETTINGS, ...FREE_PORTS };
    const traced = { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" };
    const refused = small.run([...small.entrypoint, ...small.command], traced);
    expect(await refused.ended).toBe(1);
    expect(refused.output()).toMatch(/Cannot find package '@opentelemetry/);
    const gateway = small.run([...small.entrypoint, ...small.command], env);
    await gateway.says(READY);
    gateway.signal("SIGTERM");
    expect(await gateway.ended).toBe(0);
  },
  BUILD_MS,
);

it("the image with the sandbox of the project runs the sandbox as compose.yaml runs it, healthy as compose.yaml asks it", async () => {
  const { command = [], healthcheck, volumes = [] } = composeFile().services["sandbox"] ?? {};
  const inImage = join(image.root, "app/src/sandbox");
  expect(volumes).toEqual(["./src/sandbox:/app/src/sandbox:ro"]);
  const missing = image.run([...image.entrypoint, "sandbox"]);
  expect(await missing.ended).toBe(1);
  expect(missing.output()).toMatch(/^The image has no sandbox\. .*\n$/);

  cpSync("src/sandbox", inImage, { recursive: true });
  onTestFinished(() => rmSync(inImage, { recursive: true }));
  // Any free ports: those of compose.yaml are the container's own.
  const anyPorts = command.map((word) => word.replace(/^(--(?:control-)?port=)\d+$/, "$10"));
  const sandbox = image.run([...image.entrypoint, ...anyPorts]);
  const [, port = ""] = await sandbox.says(/control\s+http:\/\/[^:]+:(\d+)/);
  const check = healthcheck?.test.slice(1).map((word: string) => word.replace(/:\d+\//, `:${port}/`)) ?? [];
  expect(healthcheck?.test[0]).toBe("CMD");
  expect(await image.run(check).ended).toBe(0);
  sandbox.signal("SIGTERM");
  expect(await sandbox.ended).toBe(0);
  expect(await image.run(check).ended).toBe(1);
});

/** The image's HEALTHCHECK, for a gateway whose admin port is not the default one. */
async function health(admin: string): Promise<{ code: unknown; said: string }> {
  const env = { ...SETTINGS, ADMIN_PORT: new URL(admin).port };
  const check = image.run(image.healthCheck, env);
  return { code: await check.ended, said: check.output() };
}

/** Every file of the image but those below /data, with its size and when it was changed. */
function listing(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((path) => !path.startsWith("data/"))
    .map((path) => {
      const stats = statSync(join(root, path));
      return stats.isDirectory() ? path : `${path} ${stats.size} ${stats.mtimeMs}`;
    })
    .sort();
}

function installedPackages(directory: string): string[] {
  return readdirSync(directory).flatMap((name) =>
    name.startsWith("@") ? readdirSync(join(directory, name)).map((inner) => `${name}/${inner}`) : [name],
  );
}
