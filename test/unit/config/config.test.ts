import { inspect } from "node:util";

import { describe, expect, it } from "vitest";

import { createAuthority } from "../../support/certificates.ts";
import { load, MINIMAL } from "./config-fixture.ts";

const overlay = (yaml: string): ReturnType<typeof load> =>
  load({ ...MINIMAL, CONFIG_FILE: "gateway.yaml" }, { "gateway.yaml": yaml });

const DAY = 86_400_000;

describe("defaults", () => {
  it("are complete, in the units of their names", () => {
    const { privateKey, ...upstream } = load(MINIMAL).upstream;
    expect(privateKey.reveal()).toBe("k3y-of-acme");
    expect({ ...load(MINIMAL), upstream }).toEqual({
      server: {
        host: "0.0.0.0",
        port: 8080,
        tls: null,
        appIdHeader: "x-app-id",
        corsOrigins: [],
        trustedProxies: [],
        maxUrlBytes: 8192,
        maxHeaderBytes: 16_384,
        maxHeaders: 100,
        maxConnections: 5_000,
        headersTimeoutMs: 10_000,
        requestTimeoutMs: 30_000,
        keepAliveTimeoutMs: 75_000,
        writeTimeoutMs: 30_000,
        stopDelayMs: 2_000,
        drainTimeoutMs: 10_000,
      },
      admin: { host: "127.0.0.1", port: 9090, token: null, tls: null },
      upstream: {
        url: "https://api.example.com",
        imageUrl: "https://images.example.com",
        ca: null,
        proxy: { https: null, http: null, except: null },
        service: "propertyservice",
        callerId: "acme",
        privateKeyFile: null,
        userAgent: "acme-gateway/1.0",
        referrer: "https://acme.example.com/",
        recordPath: "/{resource}/{serviceId}",
        passThrough: [],
        maxBodyBytes: 4_194_304,
        connections: 8,
        connectTimeoutMs: 2_000,
        headerTimeoutMs: 5_000,
        bodyTimeoutMs: 5_000,
        totalTimeoutMs: 8_000,
        retryDelayMs: 200,
      },
      query: {
        unknown: "reject",
        allow: [],
        ignore: ["_", "format", "utm_*", "fbclid", "gclid"],
        maxLimit: 500,
        maxImageSize: { width: 140, height: 94 },
      },
      apps: [],
      unlistedApps: { weight: 1, max: 100 },
      cache: {
        maxBytes: 268_435_456,
        ttlMs: {
          listings: 300_000,
          sold: 3_600_000,
          areas: 86_400_000,
          records: 600_000,
          images: 86_400_000,
        },
        negativeTtlMs: { listings: 60_000, sold: 60_000, areas: 60_000, records: 60_000, images: 60_000 },
        staleWhileRevalidateMs: {
          listings: 60_000,
          sold: 900_000,
          areas: 43_200_000,
          records: 120_000,
          images: 43_200_000,
        },
        staleIfErrorMs: { listings: DAY, sold: DAY, areas: DAY, records: DAY, images: DAY },
        maxDiskBytes: 1_073_741_824,
        retentionMs: 172_800_000,
        maxWaitForFreshMs: 1_000,
        maxAgeEverMs: 86_400_000,
        honourUpstream: true,
        minRefreshIntervalMs: 10_000,
        earlyRefreshAbove: 0.5,
      },
      budget: {
        limit: [
          { limit: 60, windowMs: 60_000, name: "1m" },
          { limit: 10_000, windowMs: 86_400_000, name: "1d" },
        ],
        concurrency: 4,
        maxWaitMs: 10_000,
        images: [{ limit: 300, windowMs: 60_000, name: "1m" }],
        mode: "enforce",
        reserve: 0.1,
        replicas: 1,
        degradedReserve: 0.05,
        degradedForMs: 300_000,
        maxCoolOffMs: 300_000,
      },
      pages: { fold: "on" },
      ledger: { retentionMs: 3_024_000_000, maxRecords: 500_000 },
      redis: null,
      dataDir: "./data",
      log: { level: "info", access: "sampled", accessSample: 1 },
      metrics: { unlistedApps: 20 },
    });
  });
});

describe("precedence", () => {
  it("merges the file into the defaults key by key, and replaces lists", () => {
    const config = overlay(
      "server:\n  port: 81\nquery:\n  ignore: [utm]\napps:\n  - id: web\n  - id: app.2\n",
    );
    expect(config.server).toMatchObject({ host: "0.0.0.0", port: 81 });
    expect(config.query).toMatchObject({ unknown: "reject", ignore: ["utm"] });
    expect(config.apps.map(({ id }) => id)).toEqual(["web", "app.2"]);
  });

  it("prefers the environment to the file", () => {
    const env = { ...MINIMAL, CONFIG_FILE: "gateway.yaml", PORT: "82", BUDGET: "5/1s" };
    const config = load(env, {
      "gateway.yaml": "server: { port: 81 }\nbudget: { limit: 9/1m, concurrency: 2 }",
    });
    expect(config.server.port).toBe(82);
    expect(config.budget).toMatchObject({
      concurrency: 2,
      limit: [{ limit: 5, windowMs: 1_000, name: "1s" }],
    });
  });

  it("reads single lifetimes from CACHE_TTL and keeps the others", () => {
    const { ttlMs } = load({ ...MINIMAL, CACHE_TTL: "listings=2m, sold=3h" }).cache;
    expect(ttlMs).toMatchObject({ listings: 120_000, sold: 10_800_000, areas: 86_400_000 });
  });

  it("accepts one duration for every kind of answer", () => {
    const { cache } = overlay(
      "cache: { ttl: 7s, staleWhileRevalidate: 0s, staleIfError: 8s, negativeTtl: 2s }",
    );
    const all = (ms: number): object => ({ listings: ms, sold: ms, areas: ms, records: ms, images: ms });
    expect(cache).toMatchObject({
      ttlMs: all(7_000),
      staleWhileRevalidateMs: all(0),
      staleIfErrorMs: all(8_000),
      negativeTtlMs: all(2_000),
    });
  });

  it("changes one kind from the environment if the file has one duration for all", () => {
    const env = { ...MINIMAL, CONFIG_FILE: "gateway.yaml", CACHE_TTL: "sold=3h" };
    const { ttlMs } = load(env, { "gateway.yaml": "cache: { ttl: 7s }" }).cache;
    expect(ttlMs).toEqual({ listings: 7_000, sold: 10_800_000, areas: 7_000, records: 7_000, images: 7_000 });
  });

  it("treats an empty variable as unset", () => {
    const empty = { CONFIG_FILE: "", PORT: "", BUDGET: "", REDIS_URL: "", ADMIN_TOKEN: "" };
    expect(load({ ...MINIMAL, ...empty, UPSTREAM_PRIVATE_KEY_FILE: "" })).toEqual(load(MINIMAL));
  });

  it("treats an empty DATA_DIR as memory only", () => {
    expect(load({ ...MINIMAL, DATA_DIR: "" }).dataDir).toBeNull();
  });

  it("reads Redis with its nodes, the address a secret", () => {
    const file = 'redis: { mode: sentinel, sentinel: { master: main, nodes: ["s1:26379", "[::1]:26380"] } }';
    const { redis } = load(
      { ...MINIMAL, REDIS_URL: "rediss://app:pw@redis.example/0", CONFIG_FILE: "gateway.yaml" },
      { "gateway.yaml": file },
    );
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
      probeIntervalMs: 1_000,
    });
    expect(redis?.url.reveal()).toBe("rediss://app:pw@redis.example/0");
    expect(JSON.stringify(redis)).not.toContain("pw");
  });

  it.each([
    ["is empty", ""],
    ["has only comments", "# nothing yet\n"],
    ["has a section with nothing in it", "server:\n  # port: 81\nupstream:\n"],
    ["names what is to come without a value", "ledger:\n"],
  ])("uses the defaults if the file %s", (_, yaml) => {
    expect(overlay(yaml)).toEqual(load(MINIMAL));
  });
});

describe("values", () => {
  it("reads base addresses without a trailing slash, and keeps a path", () => {
    const env = {
      ...MINIMAL,
      UPSTREAM_URL: "https://api.example.com/",
      UPSTREAM_IMAGE_URL: "http://h:81/i/",
    };
    expect(load(env).upstream).toMatchObject({ url: "https://api.example.com", imageUrl: "http://h:81/i" });
  });

  it("allows port 0 for both ports", () => {
    expect(load({ ...MINIMAL, PORT: "0", ADMIN_PORT: "0" })).toMatchObject({
      server: { port: 0 },
      admin: { port: 0 },
    });
  });

  it.each(["/listings/{serviceId}/similar", "/areas/*", "/sold/statistics"])("passes %s through", (path) => {
    expect(overlay(`upstream: { passThrough: ["${path}"] }`).upstream.passThrough).toEqual([path]);
  });
});

it("reads the limits of budget, ledger and cache", () => {
  const config = overlay(
    "budget: { mode: observe, reserve: 0, degradedFor: 24h, maxCoolOff: 90s }\n" +
      "ledger: { retention: 365d, maxRecords: 1000 }\ncache: { maxAgeEver: 30d }",
  );
  expect(config.budget).toMatchObject({
    mode: "observe",
    reserve: 0,
    degradedForMs: 86_400_000,
    maxCoolOffMs: 90_000,
  });
  expect(config.ledger).toEqual({ retentionMs: 31_536_000_000, maxRecords: 1_000 });
  expect(config.cache.maxAgeEverMs).toBe(2_592_000_000);
});

describe("the private key", () => {
  const { UPSTREAM_PRIVATE_KEY: _, ...rest } = MINIMAL;

  it.each([
    ["as it is", "from-file"],
    ["without the newline at its end", "from-file\n"],
    ["without the newline of Windows", "from-file\r\n"],
  ])("is read from a file %s", (_, content) => {
    const config = load({ ...rest, UPSTREAM_PRIVATE_KEY_FILE: "/run/key" }, { "/run/key": content });
    expect(config.upstream.privateKey.reveal()).toBe("from-file");
  });

  it("is not in any printed form of the configuration", () => {
    const config = load(MINIMAL);
    const shown = [JSON.stringify(config), inspect(config, { depth: Infinity, showHidden: true })].join();
    expect(shown).not.toContain("k3y-of-acme");
    expect(shown).toContain("[secret]");
  });
});

describe("the admin port", () => {
  it.each([
    ["this machine, without a token", {}, "127.0.0.1"],
    ["what callers have, with a token", { ADMIN_TOKEN: "t0ken-of-16-chars" }, "0.0.0.0"],
    [
      "what callers have, with a token from a file",
      { ADMIN_TOKEN_FILE: "/run/token", HOST: "10.0.0.1" },
      "10.0.0.1",
    ],
    ["what the settings say, without a token", { ADMIN_HOST: "0.0.0.0" }, "0.0.0.0"],
    ["what the settings say, with a token", { ADMIN_HOST: "::1", ADMIN_TOKEN: "t0ken-of-16-chars" }, "::1"],
  ])("is for %s", (_, env, host) => {
    expect(load({ ...MINIMAL, ...env }, { "/run/token": "t0ken-of-16-chars\n" }).admin.host).toBe(host);
  });

  it("reads its token from a variable or a file, and never prints it", () => {
    const given = load({ ...MINIMAL, ADMIN_TOKEN: "t0ken-of-16-chars-1" });
    const read = load(
      { ...MINIMAL, ADMIN_TOKEN_FILE: "/run/token" },
      { "/run/token": "t0ken-of-16-chars-2\n" },
    );
    expect([given.admin.token?.reveal(), read.admin.token?.reveal()]).toEqual([
      "t0ken-of-16-chars-1",
      "t0ken-of-16-chars-2",
    ]);
    expect([JSON.stringify([given, read]), inspect([given, read], { depth: Infinity })].join()).not.toContain(
      "t0ken-of-16-chars",
    );
  });
});

describe("certificate authorities", () => {
  const { cert } = createAuthority();
  it("are read from their files", () => {
    const env = { ...MINIMAL, REDIS_URL: "rediss://h", REDIS_CA_FILE: "/r.pem", UPSTREAM_CA_FILE: "/u.pem" };
    const config = load(env, { "/r.pem": cert, "/u.pem": `Ours:\n${cert}${cert}` });
    expect([config.redis?.ca, config.upstream.ca]).toEqual([cert, `Ours:\n${cert}${cert}`]);
  });
});

it("the configuration is deeply frozen", () => {
  const frozen = (value: unknown): boolean =>
    typeof value !== "object" ||
    value === null ||
    (Object.isFrozen(value) && Object.values(value).every((inner) => frozen(inner)));
  expect(frozen(overlay("apps: [{ id: web }]"))).toBe(true);
});
