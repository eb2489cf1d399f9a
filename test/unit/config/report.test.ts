import { expect, it } from "vitest";

import { report } from "../../../src/config/report.ts";
import { examineConfig } from "../../../src/config/load.ts";
import { MINIMAL } from "./config-fixture.ts";

it("the report lists where each setting is set, and no secret", () => {
  const { UPSTREAM_URL: _, ...rest } = MINIMAL;
  const yaml =
    "server: { port: 81 }\nupstream:\n  url: https://api.example.com\napps: [{ id: web }]\ncache:\n  negativeTtl: 2m\n";
  const examined = examineConfig({
    env: { ...rest, PORT: "82", CACHE_TTL: "sold=2h", CONFIG_FILE: "gateway.yaml" },
    readFile: () => yaml,
  });
  expect(report(examined)).toEqual([
    "configuration is valid",
    "  defaults from config/default.yaml",
    '  gateway.yaml:3: upstream.url = "https://api.example.com"',
    '  gateway.yaml:4: apps = [{"id":"web"}]',
    '  gateway.yaml:6: cache.negativeTtl = "2m"',
    "  environment variable PORT: server.port = 82",
    '  environment variable UPSTREAM_IMAGE_URL: upstream.imageUrl = "https://images.example.com"',
    '  environment variable UPSTREAM_SERVICE: upstream.service = "propertyservice"',
    '  environment variable UPSTREAM_CALLER_ID: upstream.callerId = "acme"',
    "  environment variable UPSTREAM_PRIVATE_KEY: upstream.privateKey = [secret]",
    '  environment variable UPSTREAM_USER_AGENT: upstream.userAgent = "acme-gateway/1.0"',
    '  environment variable UPSTREAM_REFERRER: upstream.referrer = "https://acme.example.com/"',
    '  environment variable CACHE_TTL: cache.ttl.sold = "2h"',
  ]);
});

it("the report lists the settings of a section of apps, and those of the environment beside a plain list", () => {
  const linesFor = (yaml: string): string[] => {
    const env = { ...MINIMAL, APPS_DEFAULT: "2", CONFIG_FILE: "gateway.yaml" };
    return report(examineConfig({ env, readFile: () => yaml })).filter((line) => line.includes(": apps"));
  };
  const variable = "  environment variable APPS_DEFAULT: apps.default = 2";
  expect(linesFor("apps: [{ id: web }]")).toEqual(['  gateway.yaml:1: apps = [{"id":"web"}]', variable]);
  expect(linesFor("apps:\n  maxUnlisted: 5\n  listed: [{ id: web }]")).toEqual([
    "  gateway.yaml:2: apps.maxUnlisted = 5",
    '  gateway.yaml:3: apps.listed = [{"id":"web"}]',
    variable,
  ]);
});

it("the report shows the path of a secret's file, and not the secret", () => {
  const { UPSTREAM_PRIVATE_KEY: key, ...rest } = MINIMAL;
  const files: Record<string, string> = {
    "gateway.yaml": "admin: { tokenFile: secrets/token }",
    "secrets/token": "t0ken-of-16-chars",
    "/run/secrets/key": key,
  };
  const examined = examineConfig({
    env: { ...rest, UPSTREAM_PRIVATE_KEY_FILE: "/run/secrets/key", CONFIG_FILE: "gateway.yaml" },
    readFile: (path) => files[path] ?? "",
  });
  const said = report(examined);
  expect(said).toContain('  gateway.yaml:1: admin.tokenFile = "secrets/token"');
  expect(said).toContain(
    '  environment variable UPSTREAM_PRIVATE_KEY_FILE: upstream.privateKeyFile = "/run/secrets/key"',
  );
  expect(said.join("\n")).not.toMatch(/t0ken|k3y-of-acme/);
});
