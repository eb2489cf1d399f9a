/** What valid settings mean. */
import { inspect } from "node:util";

import { expect, it } from "vitest";

import { examineConfig } from "../../../src/config/load.ts";
import { report } from "../../../src/config/report.ts";
import { createAuthority } from "../../support/certificates.ts";
import { load, MINIMAL } from "./config-fixture.ts";

const TOKEN = "t0ken-of-operators";

const overlay = (yaml: string, env: Record<string, string> = {}): ReturnType<typeof load> =>
  load({ ...MINIMAL, ...env, CONFIG_FILE: "gateway.yaml" }, { "gateway.yaml": yaml });

it("the environment wins over the file, and the file over the defaults, key by key; lists are replaced", () => {
  const config = overlay(
    "server: { port: 81 }\nbudget: { limit: 9/1m, concurrency: 2 }\nredis: { nodes: ['h:1'] }\napps: [{ id: web }, { id: app.2 }]",
    { PORT: "82", BUDGET: "5/1s", REDIS_URL: "redis://h" },
  );
  expect(config).toMatchObject({
    server: { host: "0.0.0.0", port: 82 },
    budget: { concurrency: 2, limit: [{ limit: 5, windowMs: 1_000, name: "1s" }], maxWaitMs: 10_000 },
    redis: { nodes: [{ host: "h", port: 1 }] },
    apps: [{ id: "web" }, { id: "app.2" }],
  });
});

it("a lifetime is one duration for every kind of answer, or one for each", () => {
  const all = (ms: number): object => ({ listings: ms, sold: ms, areas: ms, records: ms, images: ms });
  expect(overlay("cache: { ttl: 7s }").cache.ttlMs).toEqual(all(7_000));
  const { ttlMs } = overlay("cache: { ttl: 7s }", { CACHE_TTL: "sold=3h, areas=1m" }).cache;
  expect(ttlMs).toEqual({ ...all(7_000), sold: 10_800_000, areas: 60_000 });
  expect(overlay("cache: { ttl: { sold: 2h } }").cache.ttlMs).toMatchObject({
    listings: 300_000,
    sold: 7_200_000,
  });
});

it("an empty variable counts as unset, except DATA_DIR", () => {
  const empty = { CONFIG_FILE: "", PORT: "", REDIS_URL: "", ADMIN_TOKEN: "" };
  expect(load({ ...MINIMAL, ...empty, UPSTREAM_PRIVATE_KEY_FILE: "" })).toEqual(load(MINIMAL));
  expect([load(MINIMAL).dataDir, load({ ...MINIMAL, DATA_DIR: "" }).dataDir]).toEqual(["./data", null]);
});

it.each(["", "# nothing yet\n", "server:\n  # port: 81\nupstream:\n", "redis:\n"])(
  "the file %j changes nothing",
  (yaml) => {
    expect(overlay(yaml)).toEqual(load(MINIMAL));
  },
);

it("Redis behind Sentinels has nodes and passwords, and its address is a secret", () => {
  const file = 'redis: { mode: sentinel, sentinel: { master: main, nodes: ["s1:26379", "[::1]:26380"] } }';
  const { redis } = overlay(file, {
    REDIS_URL: "rediss://app:pw@redis.example/0",
    REDIS_SENTINEL_PASSWORD: "s-pw",
  });
  expect(redis).toMatchObject({
    mode: "sentinel",
    sentinel: {
      name: "main",
      nodes: [
        { host: "s1", port: 26_379 },
        { host: "::1", port: 26_380 },
      ],
    },
    timeoutMs: 50,
  });
  expect(redis?.url.reveal()).toBe("rediss://app:pw@redis.example/0");
  expect(redis?.sentinel?.password?.reveal()).toBe("s-pw");
  expect(JSON.stringify(redis)).not.toContain("pw");
});

it("base addresses have no trailing slash, and keep a path", () => {
  const env = { ...MINIMAL, UPSTREAM_URL: "https://api.example.com/", UPSTREAM_IMAGE_URL: "http://h:81/i/" };
  expect(load(env).upstream).toMatchObject({ url: "https://api.example.com", imageUrl: "http://h:81/i" });
});

it("an app has weight 1, no perDay, interactive priority and no forced refreshes by default", () => {
  const sync = "{ id: sync, weight: 0.5, perDay: 2000, priority: background, mayForceRefresh: true }";
  const web = {
    id: "web",
    weight: 1,
    perDay: null,
    priority: "interactive",
    mayForceRefresh: false,
    tokenFile: null,
  };
  for (const yaml of [`apps: [{ id: web }, ${sync}]`, `apps: { listed: [{ id: web }, ${sync}] }`]) {
    expect(overlay(yaml).apps).toEqual([
      { ...web, token: null },
      {
        id: "sync",
        weight: 0.5,
        perDay: 2_000,
        priority: "background",
        mayForceRefresh: true,
        tokenFile: null,
        token: null,
      },
    ]);
  }
});

it.each(["from-file", "from-file\n", "from-file\r\n"])("the file %j holds the private key", (content) => {
  const { UPSTREAM_PRIVATE_KEY: _, ...rest } = MINIMAL;
  const config = load({ ...rest, UPSTREAM_PRIVATE_KEY_FILE: "/run/key" }, { "/run/key": content });
  expect(config.upstream.privateKey.reveal()).toBe("from-file");
});

it.each([
  ["without a token", {}, "127.0.0.1", undefined],
  ["with a token", { ADMIN_TOKEN: TOKEN }, "0.0.0.0", TOKEN],
  ["with a token from a file", { ADMIN_TOKEN_FILE: "/run/token", HOST: "10.0.0.1" }, "10.0.0.1", TOKEN],
  ["with an address of its own", { ADMIN_HOST: "0.0.0.0" }, "0.0.0.0", undefined],
])("the admin port %s", (_, env, host, token) => {
  const { admin } = load({ ...MINIMAL, ...env }, { "/run/token": `${TOKEN}\n` });
  expect([admin.host, admin.token?.reveal()]).toEqual([host, token]);
});

it("certificate authorities are read from their files", () => {
  const { cert } = createAuthority();
  const env = { REDIS_URL: "rediss://h", REDIS_CA_FILE: "/r.pem", UPSTREAM_CA_FILE: "/u.pem" };
  const config = load({ ...MINIMAL, ...env }, { "/r.pem": cert, "/u.pem": `Ours:\n${cert}${cert}` });
  expect([config.redis?.ca, config.upstream.ca]).toEqual([cert, `Ours:\n${cert}${cert}`]);
});

it("the configuration is deeply frozen, and no printed form of it shows a secret", () => {
  const frozen = (value: unknown): boolean =>
    typeof value !== "object" ||
    value === null ||
    (Object.isFrozen(value) && Object.values(value).every((inner) => frozen(inner)));
  const config = overlay("apps: [{ id: web }]", { ADMIN_TOKEN: TOKEN });
  expect(frozen(config)).toBe(true);
  const shown = [JSON.stringify(config), inspect(config, { depth: Infinity, showHidden: true })].join();
  expect(shown).not.toMatch(/k3y-of-acme|t0ken/);
});

it("the report says where each setting is set, and shows no secret", () => {
  const yaml =
    "server: { port: 81 }\nupstream:\n  url: https://api.example.com\napps: [{ id: web }]\n" +
    "admin: { tokenFile: /t }\ncache:\n  negativeTtl: 2m\n";
  const env = { PORT: "82", CACHE_TTL: "sold=2h", REDIS_URL: "redis://:pw@h", CONFIG_FILE: "gateway.yaml" };
  const examined = examineConfig({
    env: { ...MINIMAL, ...env },
    readFile: (path) => (path === "/t" ? TOKEN : yaml),
  });
  const lines = report(examined);
  expect(lines).toEqual(
    expect.arrayContaining([
      '  gateway.yaml:4: apps.web.id = "web"',
      '  gateway.yaml:5: admin.tokenFile = "/t"',
      '  gateway.yaml:7: cache.negativeTtl = "2m"',
      "  environment variable PORT: server.port = 82",
      "  environment variable REDIS_URL: redis.url = [secret]",
      '  environment variable CACHE_TTL: cache.ttl.sold = "2h"',
      "  environment variable UPSTREAM_PRIVATE_KEY = [secret]",
    ]),
  );
  expect(lines.join("\n")).not.toMatch(/server\.port = 81|t0ken|k3y|pw@/);
});
