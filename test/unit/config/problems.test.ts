/** Mistakes in the settings: the file and the environment, and the line that a start prints. */
import { describe, expect, it } from "vitest";

import { settingWarnings } from "../../../src/config/cross-check.ts";
import { REMOVED } from "../../../src/config/removed.ts";
import { createAuthority } from "../../support/certificates.ts";
import { load, MINIMAL, problemsOf, problemsOfFile } from "./config-fixture.ts";

const DURATION = "a duration from 1ms to 24d, such as 250ms, 5m or 1h";
const LIFETIME = "a duration from 1ms to 365d, such as 250ms, 5m or 1h";
const PER_KIND = "one duration for all kinds of answers, such as 5m, or a section with one for each";
const PORT = "a port number from 0 to 65535, where 0 means any free port";
const SECTION = "a section with settings below it";
const APP_ID = "1 to 64 letters, digits, '.', '_' or '-', and not the word other";
const APP_KEYS = "id, weight, perDay, priority, mayForceRefresh, tokenFile";
const BUDGET =
  'requests per window such as "60/1m,10000/1d": whole numbers above zero, each window once and at most 35d';
const PAIRS = "key=value pairs, each key once, such as listings=5m,sold=1h";
const TOKEN = "one line of at least 16 letters, digits and -._~+/";
const REDIS =
  "a redis:// or rediss:// URL with a host, special characters in user and password percent-encoded";
const PASS = "a path below /listings, /sold or /areas, such as /listings/{serviceId}/similar or /areas/*";

it("names every missing setting and how to set it", () => {
  expect(problemsOf({})).toEqual([
    expect.stringMatching(
      /^upstream\.url is missing: set UPSTREAM_URL, or upstream\.url in the conf.*; expected/,
    ),
    expect.stringMatching(/^upstream\.imageUrl is missing: set UPSTREAM_IMAGE_URL, /),
    expect.stringMatching(/^upstream\.service is missing: set UPSTREAM_SERVICE, /),
    expect.stringMatching(/^upstream\.callerId is missing: set UPSTREAM_CALLER_ID, /),
    expect.stringMatching(/^upstream\.userAgent is missing: set UPSTREAM_USER_AGENT, /),
    expect.stringMatching(/^upstream\.referrer is missing: set UPSTREAM_REFERRER, /),
    expect.stringMatching(/^upstream\.privateKeyFile is missing: set UPSTREAM_PRIVATE_KEY_FILE .* the key$/),
  ]);
});

// Lines of the file begin with `gateway.yaml:LINE: `, those of the environment with `environment variable NAME: `.
it.each<[string, string]>([
  ["server:\n  prot: 1", "2: server.prot: unknown setting; did you mean server.port?"],
  ["cache:\n  max-bytes: 1GiB", "2: cache.max-bytes: unknown setting; did you mean cache.maxBytes?"],
  ["port: 1", "1: port: unknown setting; did you mean server.port or admin.port?"],
  ["log:\n  colour: 1", "2: log.colour: unknown setting; known in log: level, access"],
  ["log:\n  __proto__: 1", "2: log.__proto__: unknown setting; known in log: level, access"],
  ["budget: { maxWaitMs: 5s }", "1: budget.maxWaitMs: unknown setting; did you mean budget.maxWait?"],
  ["server:\n\n  port: '80'", `3: server.port: found "80"; expected ${PORT}`],
  ["server:\n  port:", `2: server.port: found nothing; expected ${PORT}`],
  ["server:\n  port: { a: 1 }", `2: server.port: found a section; expected ${PORT}`],
  ["cache:\n  ttl:\n    sold: 300", `3: cache.ttl.sold: found 300; expected ${LIFETIME}`],
  ["cache: { ttl: { sold: 0s } }", `1: cache.ttl.sold: found "0s"; expected ${LIFETIME}`],
  ["cache: { ttl: 5 minutes }", `1: cache.ttl: found "5 minutes"; expected ${PER_KIND}`],
  ["cache: { ttl: 5 }", `1: cache.ttl: found 5; expected ${PER_KIND}`],
  ["cache: 5m", `1: cache: found "5m"; expected ${SECTION}`],
  ["log: [info]", `1: log: found a list; expected ${SECTION}`],
  ["redis: { timeout: 25d }", `1: redis.timeout: found "25d"; expected ${DURATION}`],
  ["upstream: { passThrough: [/a] }", `1: upstream.passThrough[0]: found "/a"; expected ${PASS}`],
  ["upstream: { passThrough: [/areas] }", `1: upstream.passThrough[0]: found "/areas"; expected ${PASS}`],
  ["budget: { mode: dry }", '1: budget.mode: found "dry"; expected one of enforce, observe'],
  [
    "budget: { degradedReserve: 0.6 }",
    "1: budget.degradedReserve: found 0.6; expected a number from 0 to 0.5, such as 0.1",
  ],
  ["budget: { images: 100/36d }", `1: budget.images: found "100/36d"; expected ${BUDGET}`],
  [
    "redis: { mode: cluster }",
    "1: redis.url: expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password",
  ],
  [
    "warm: [{ every: 5m }]",
    "1: warm[0].url: missing; expected a path and query, such as /listings?areaId=76",
  ],
  [
    "warm:\n  - url: /areas\n    every: 1ms",
    '3: warm[0].every: found "1ms"; expected a duration from 1s on, such as 5m',
  ],
  ["apps:\n  - id: web\n  - id: other", `3: apps[1].id: found "other"; expected ${APP_ID}`],
  ["apps:\n  - {}", `2: apps[0].id: missing; expected ${APP_ID}`],
  ["apps:\n  - id: a\n  - id: a", '3: apps[1].id: "a" is the id of apps[0] already; expected each id once'],
  ["apps:\n  - id: a\n    name: b", `3: apps[0].name: unknown setting; known in apps[0]: ${APP_KEYS}`],
  ["apps:\n  listed:\n    - id: other", `3: apps.listed[0].id: found "other"; expected ${APP_ID}`],
  [
    "apps: { listed: [{ id: a, name: b }] }",
    `1: apps.listed[0].name: unknown setting; known in apps.listed[0]: ${APP_KEYS}`,
  ],
  ["apps: [{ id: a, weight: 0 }]", "1: apps[0].weight: found 0; expected a number above 0, at most 1000"],
  ["apps: [{ id: a, perDay: 0.5 }]", "1: apps[0].perDay: found 0.5; expected a whole number above zero"],
  ["log: {}\nlog: {}", "2: not valid YAML: a key is given twice"],
  ["log:\n\tlevel: info", "2: not valid YAML: a tab is used to indent"],
  ["- server", ' expected settings, as in "server:" and below it "port: 8080"'],
  ["log: *none", " not valid YAML: an alias (*name) has no anchor, or there are too many"],
  ...REMOVED.map(({ path, instead }): [string, string] => {
    const keys = path.split(".");
    const yaml = `{ ${keys.join(": { ")}: 1 ${"}".repeat(keys.length)}`;
    return [yaml, `1: ${path}: this setting no longer exists. ${instead}`];
  }),
])("the file %j: %s", (yaml, line) => {
  expect(problemsOfFile(yaml)).toEqual([`gateway.yaml:${line}`]);
});

it.each<[string, string, string]>([
  ["PORT", "abc", `server.port: found "abc"; expected ${PORT}`],
  ["PORT", "80.5", `server.port: found "80.5"; expected ${PORT}`],
  ["BUDGET_MAX_WAIT", "10", `budget.maxWait: found "10"; expected ${DURATION}`],
  ["REPLICAS", "0", "budget.replicas: found 0; expected a whole number from 1 to 1000"],
  ["BUDGET", "60/1m,5/60s", `budget.limit: found "60/1m,5/60s"; expected ${BUDGET}`],
  ["LOG_LEVEL", "INFO", 'log.level: found "INFO"; expected one of trace, debug, info, warn, error, silent'],
  ["CACHE_TTL", "listings=0s", `cache.ttl.listings: found "0s"; expected ${LIFETIME}`],
  ["CACHE_TTL", "listing=5m", "cache.ttl.listing: unknown setting; did you mean cache.ttl.listings?"],
  ["CACHE_TTL", "listings:5m", `cache.ttl: found "listings:5m"; expected ${PAIRS}`],
  ["CACHE_TTL", "sold=5m,sold=6m", `cache.ttl: given twice: "sold=6m"; expected ${PAIRS}`],
  [
    "UPSTREAM_USER_AGENT",
    "a\r\nX: y",
    String.raw`upstream.userAgent: found "a\r\nX: y"; expected one line of ASCII text without blanks around it`,
  ],
  ["UPSTREAM_REFERER", "x", "unknown; did you mean UPSTREAM_REFERRER?"],
  ["UPSTREAM_PRIVATE_KEYS", "x", "unknown; did you mean UPSTREAM_PRIVATE_KEY?"],
  ["ADMIN_TOKEN", "only-15-letters", `found [secret]; expected ${TOKEN}`],
  ["ADMIN_TOKEN", "two words, not a token", `found [secret]; expected ${TOKEN}`],
  ...[
    "http://h",
    "redis:///0",
    "redis://:pa#ss@h",
    "redis://h/pa/ss",
    "redis://:100%@h",
    "redis://h?db=1",
  ].map((url): [string, string, string] => [
    "REDIS_URL",
    url,
    `redis.url: found [secret]; expected ${REDIS}`,
  ]),
  ...REMOVED.flatMap(({ env = [], instead }) =>
    [env]
      .flat()
      .map((name): [string, string, string] => [name, "1", `this setting no longer exists. ${instead}`]),
  ),
])("%s=%s", (name, value, line) => {
  expect(problemsOf({ ...MINIMAL, [name]: value })).toEqual([`environment variable ${name}: ${line}`]);
});

describe("a missing BUDGET", () => {
  const { BUDGET: _, ...rest } = MINIMAL;
  it.each([
    ["https://api.example.com", true],
    ["https://sandbox.api.example", true],
    ["http://127.0.0.1:4000", false],
    ["http://localhost:4000/v2", false],
    ["http://[::1]:4000", false],
    ["http://sandbox:4000", false],
  ])("for the API at %s: refused %s", (UPSTREAM_URL, isRefused) => {
    const refusal = expect.stringMatching(/^budget\.limit is missing: set BUDGET, .* agreed on with/);
    expect(problemsOf({ ...rest, UPSTREAM_URL })).toEqual(isRefused ? [refusal] : []);
    expect(problemsOfFile("budget: { limit: 60/1m }", { ...rest, UPSTREAM_URL })).toEqual([]);
  });
});

it.each([
  ["UPSTREAM_USER_AGENT", "gateway (ops@example.com)", "upstream.userAgent"],
  ["UPSTREAM_USER_AGENT", "gateway of API.acme.example", "upstream.userAgent"],
  ["UPSTREAM_REFERRER", "https://www.example.com/", "upstream.referrer"],
  ["UPSTREAM_REFERRER", "http://127.0.0.1/", "upstream.referrer"],
  ["UPSTREAM_REFERRER", "http://localhost:8080/", "upstream.referrer"],
  ["UPSTREAM_REFERRER", "https://api.acme.example/", "upstream.referrer"],
  ["CACHE_TTL", "sold=25h", "cache.ttl.sold is 25h"],
  ["UPSTREAM_REFERRER", "https://www.notexample.com.se/", undefined],
  ["CACHE_TTL", "sold=1d", undefined],
])("a start with %s=%s warns of %s", (name, value, expected) => {
  const env = { ...MINIMAL, UPSTREAM_URL: "https://api.acme.example", [name]: value };
  const warnings = settingWarnings(load(env));
  expect(warnings).toEqual(expected === undefined ? [] : [expect.stringContaining(expected)]);
});

it.each(["PATH", "POST", "HOSTNAME", "UPSTREAM_PORT", "UPSTREAM_SERVICE_HOST", "REDIS_PORT"])(
  "the variable %s of another program is ignored",
  (name) => {
    expect(problemsOf({ ...MINIMAL, [name]: "x" })).toEqual([]);
  },
);

it("reports every problem, in the file and in the environment", () => {
  const yaml = "server: { port: x }\nquery: { unknown: ignore }\nledgers: 1\nbudget: { limit: 1 }";
  const env = { ...MINIMAL, BUDGET: "", LOG_LEVEL: "loud", UPSTREAM_URL: "ftp://x" };
  expect(problemsOfFile(yaml, env)).toHaveLength(6);
  expect(problemsOfFile("server: 5", { ...MINIMAL, PORT: "80" })).toHaveLength(1);
  expect(problemsOfFile("cache:\n  maxAgeEver: 1h\n  ttl: 400d")).toEqual(
    ["listings", "sold", "areas", "records", "images"].map(
      (kind) => `gateway.yaml:3: cache.ttl.${kind}: found "400d"; expected ${LIFETIME}`,
    ),
  );
});

it("reports an unreadable file, and not the settings it may contain", () => {
  expect(problemsOf({ CONFIG_FILE: "/etc/none.yaml", PORT: "x" })).toEqual([
    'environment variable CONFIG_FILE: "/etc/none.yaml" cannot be read (ENOENT); expected a YAML file of settings',
    expect.stringContaining("PORT"),
  ]);
});

it("reports one port for two listeners, and a Sentinel mode without Sentinels", () => {
  expect(problemsOf({ ...MINIMAL, PORT: "7000", ADMIN_PORT: "7000" })).toEqual([
    "environment variable ADMIN_PORT: admin.port, environment variable PORT: server.port: both ports are 7000; " +
      "expected two different ones, or 0 for any free port",
  ]);
  expect(problemsOfFile("redis: { mode: sentinel }", { ...MINIMAL, REDIS_URL: "redis://h" })).toEqual([
    expect.stringContaining("redis.sentinel: expected the master's name and at least one Sentinel"),
  ]);
});

describe("a file with a secret", () => {
  const { UPSTREAM_PRIVATE_KEY: _, ...rest } = MINIMAL;
  it.each([
    ["is not there", {}, '"/key" cannot be read (ENOENT); expected the path of a file that holds the key'],
    ["is empty", { "/key": "\n" }, '"/key" is empty; expected it to hold the key'],
    [
      "holds more",
      { "/key": "a\nb\n" },
      '"/key" does not hold a key; expected one line of text without blanks around it',
    ],
  ])("%s", (_, files, line) => {
    expect(problemsOf({ ...rest, UPSTREAM_PRIVATE_KEY_FILE: "/key" }, files)).toEqual([
      `environment variable UPSTREAM_PRIVATE_KEY_FILE: upstream.privateKeyFile: ${line}`,
    ]);
  });

  it("is set besides the secret itself", () => {
    expect(problemsOfFile("upstream:\n  privateKeyFile: /run/key")).toEqual([
      "gateway.yaml:2: upstream.privateKeyFile: UPSTREAM_PRIVATE_KEY is set, too; expected exactly one of the two",
    ]);
  });
});

describe("a file of certificate authorities", () => {
  const { cert, key } = createAuthority();
  it.each([
    ["is not there", {}, "cannot be read (ENOENT)"],
    ["is empty", { "/ca.pem": "" }, "contains no certificate, or an invalid one"],
    ["holds a key", { "/ca.pem": key }, "contains no certificate, or an invalid one"],
    ["is cut off", { "/ca.pem": cert + cert.slice(0, 300) }, "contains no certificate, or an invalid one"],
    ["is damaged", { "/ca.pem": cert.replace(/.{64}\n/, "") }, "contains no certificate, or an invalid one"],
  ])("%s", (_, files, found) => {
    expect(problemsOf({ ...MINIMAL, UPSTREAM_CA_FILE: "/ca.pem" }, files)).toEqual([
      `environment variable UPSTREAM_CA_FILE: upstream.caFile: "/ca.pem" ${found}; ` +
        "expected the path of a file with certificates in PEM form",
    ]);
  });

  it("is named where NODE_TLS_REJECT_UNAUTHORIZED is 0, which is refused", () => {
    expect(problemsOf({ ...MINIMAL, NODE_TLS_REJECT_UNAUTHORIZED: "0" })).toEqual([
      expect.stringMatching(
        /^environment variable NODE_TLS_REJECT_UNAUTHORIZED: .* unset, .*UPSTREAM_CA_FILE/,
      ),
    ]);
    expect(problemsOf({ ...MINIMAL, NODE_TLS_REJECT_UNAUTHORIZED: "1" })).toEqual([]);
  });
});

describe("no message contains a secret", () => {
  const secret = "pr1vate-0f-acme";
  it.each<[string, Record<string, string>, string]>([
    ["malformed", { UPSTREAM_PRIVATE_KEY: ` ${secret}` }, ""],
    ["in the settings file", {}, `upstream: { privateKey: ${secret} }`],
    ["under a misspelled key", {}, `upstream: { privatKey: ${secret} }`],
    ["given as the file", { UPSTREAM_PRIVATE_KEY: "", UPSTREAM_PRIVATE_KEY_FILE: secret }, ""],
    [
      "given as the file, in base64",
      { UPSTREAM_PRIVATE_KEY: "", UPSTREAM_PRIVATE_KEY_FILE: `/${secret}+/=` },
      "",
    ],
    ["in a file", { UPSTREAM_PRIVATE_KEY: "", UPSTREAM_PRIVATE_KEY_FILE: "/key" }, ""],
    ["given in another setting too", { UPSTREAM_PRIVATE_KEY: secret, UPSTREAM_SERVICE: `${secret}/x` }, ""],
    ["in an address", { UPSTREAM_URL: `https://me:${secret}@h/` }, ""],
    ["in an address' query", { UPSTREAM_URL: `https://h/?key=${secret}` }, ""],
    ["in a malformed address of Redis", { REDIS_URL: `http://:${secret}@h` }, ""],
    ["in the address of a node", { REDIS_URL: "redis://h" }, `redis: { nodes: ["app:${secret}@h:6379"] }`],
    ["in a good address with a bad mode", { REDIS_URL: `redis://:${secret}@h` }, "redis: { mode: sentinel }"],
    ["in a token beside a file", { ADMIN_TOKEN: secret, ADMIN_TOKEN_FILE: "/token" }, ""],
    ["in a broken file", {}, `upstream: { privateKey: "${secret}`],
    ["taken for an alias", {}, `upstream: { privateKey: *${secret} }`],
    ["taken for a tag", {}, `upstream: { privateKey: !${secret} }`],
  ])("%s", (_, env, yaml) => {
    const files = { "gateway.yaml": yaml, "/key": `${secret}\nand more` };
    const problems = problemsOf({ ...MINIMAL, ...env, CONFIG_FILE: "gateway.yaml" }, files);
    expect(problems).not.toEqual([]);
    expect(problems.join("\n")).not.toContain(secret);
  });
});
