import { describe, expect, it } from "vitest";

import { REMOVED } from "../../../src/config/removed.ts";
import { MINIMAL, problemsOf, problemsOfFile } from "./config-fixture.ts";

const DURATION = "a duration from 1ms to 24d, such as 250ms, 5m or 1h";
const LIFETIME = "a duration from 1ms to 365d, such as 250ms, 5m or 1h";
const BUDGET = 'requests per window such as "60/1m,10000/1d": whole numbers above zero, each window once';

it("the report names every missing setting and how to set it", () => {
  expect(problemsOf({})).toEqual([
    expect.stringMatching(
      /^upstream\.url is missing: set UPSTREAM_URL, or upstream\.url in the conf.*; expected/,
    ),
    expect.stringMatching(/^upstream\.imageUrl is missing: set UPSTREAM_IMAGE_URL, /),
    expect.stringMatching(/^upstream\.service is missing: set UPSTREAM_SERVICE, /),
    expect.stringMatching(/^upstream\.callerId is missing: set UPSTREAM_CALLER_ID, /),
    expect.stringMatching(/^upstream\.userAgent is missing: set UPSTREAM_USER_AGENT, /),
    expect.stringMatching(/^upstream\.referrer is missing: set UPSTREAM_REFERRER, /),
    "upstream.privateKey is missing: set UPSTREAM_PRIVATE_KEY to the key, or UPSTREAM_PRIVATE_KEY_FILE to the " +
      "path of a file that holds it",
  ]);
});

describe("in the environment", () => {
  const at = "environment variable";
  it.each([
    [
      "PORT",
      "abc",
      'server.port: found "abc"; expected a port number from 0 to 65535, where 0 means any free port',
    ],
    [
      "PORT",
      "70000",
      "server.port: found 70000; expected a port number from 0 to 65535, where 0 means any free port",
    ],
    ["BUDGET_MAX_WAIT", "10", `budget.maxWait: found "10"; expected ${DURATION}`],
    ["BUDGET_CONCURRENCY", "0", "budget.concurrency: found 0; expected a whole number from 1 to 1000"],
    ["REPLICAS", "0", "budget.replicas: found 0; expected a whole number from 1 to 1000"],
    ["REPLICAS", "two", 'budget.replicas: found "two"; expected a whole number from 1 to 1000'],
    ["BUDGET", "60", `budget.limit: found "60"; expected ${BUDGET}`],
    ["BUDGET", "60/1m,5/60s", `budget.limit: found "60/1m,5/60s"; expected ${BUDGET}`],
    ["LOG_LEVEL", "INFO", 'log.level: found "INFO"; expected one of trace, debug, info, warn, error, silent'],
    ["CACHE_TTL", "listings=0s", `cache.ttl.listings: found "0s"; expected ${LIFETIME}`],
    ["CACHE_TTL", "listing=5m", "cache.ttl.listing: unknown setting; did you mean cache.ttl.listings?"],
    [
      "CACHE_TTL",
      "listings:5m",
      'cache.ttl: found "listings:5m"; expected key=value pairs, each key once, such as listings=5m,sold=1h',
    ],
    [
      "CACHE_TTL",
      "sold=5m,sold=6m",
      'cache.ttl: given twice: "sold=6m"; expected key=value pairs, each key once, such as listings=5m,sold=1h',
    ],
    [
      "UPSTREAM_SERVICE",
      "a/b",
      "upstream.service: found \"a/b\"; expected a media-type name of 1 to 63 letters, digits, '.', '_' or '-', " +
        "such as propertyservice",
    ],
    [
      "UPSTREAM_REFERRER",
      "acme.example.com",
      'upstream.referrer: found "acme.example.com"; expected an http:// or https:// URL in ASCII without user ' +
        "name and fragment",
    ],
    [
      "UPSTREAM_USER_AGENT",
      "a\r\nX: y",
      String.raw`upstream.userAgent: found "a\r\nX: y"; expected one line of ASCII text without blanks around it`,
    ],
  ])("%s=%s", (name, value, line) => {
    expect(problemsOf({ ...MINIMAL, [name]: value })).toEqual([`${at} ${name}: ${line}`]);
  });

  it.each([
    ["UPSTREAM_REFERER", "UPSTREAM_REFERRER"],
    ["UPSTREAM_CALLERID", "UPSTREAM_CALLER_ID"],
    ["CACHE_TTLS", "CACHE_TTL"],
    ["CONFIGFILE_", "CONFIG_FILE"],
  ])("reports %s as a misspelling", (name, meant) => {
    expect(problemsOf({ ...MINIMAL, [name]: "x" })).toEqual([
      `${at} ${name}: unknown; did you mean ${meant}?`,
    ]);
  });

  it("reports each removed variable, and what to do instead", () => {
    const removed = REMOVED.flatMap(({ env = [], instead }) =>
      [env].flat().map((name) => ({ name, instead })),
    );
    const env = Object.fromEntries(removed.map(({ name }) => [name, "1"]));
    expect(problemsOf({ ...MINIMAL, ...env })).toEqual(
      removed.map(({ name, instead }) => `${at} ${name}: this setting no longer exists. ${instead}`),
    );
  });

  it.each(["PATH", "POST", "HOSTNAME", "LOG", "UPSTREAM_PORT", "UPSTREAM_SERVICE_HOST", "REDIS_PORT"])(
    "ignores %s",
    (name) => {
      expect(problemsOf({ ...MINIMAL, [name]: "x" })).toEqual([]);
    },
  );
});

describe("an address of Redis", () => {
  const expected =
    "a redis:// or rediss:// URL with a host, special characters in user and password percent-encoded";

  it.each([
    ["another scheme", "http://h"],
    ["no scheme", "h:6379"],
    ["no host", "redis:///0"],
    ["a password that is cut at its #", "redis://:pa#ss@h"],
    ["a password that is cut at its /", "redis://h/pa/ss"],
    ["a password with a lone %", "redis://:100%@h"],
    ["a password that is not UTF-8", "redis://:%ff@h"],
    ["a database with a name", "redis://h/cache"],
    ["an option", "redis://h?db=1"],
    ["an impossible port", "redis://h:65536"],
  ])("with %s is refused, and not shown", (_, url) => {
    expect(problemsOf({ ...MINIMAL, REDIS_URL: url })).toEqual([
      `environment variable REDIS_URL: redis.url: found [secret]; expected ${expected}`,
    ]);
  });

  it.each([
    "redis://h",
    "rediss://app:p%40ss%2Fw%C3%B6rd@redis.example:6380/3",
    "redis://:pw@[::1]:6379/",
    "redis://10.0.0.1",
  ])("may be %s", (url) => {
    expect(problemsOf({ ...MINIMAL, REDIS_URL: url })).toEqual([]);
  });

  it.each(["h", "h:", ":6379", "h:0", "h:65536", "h:123456", "redis://h:6379", "::1:6379"])(
    "of one node is not %s",
    (node) => {
      expect(problemsOfFile(`redis: { nodes: ["${node}"] }`, { ...MINIMAL, REDIS_URL: "redis://h" })).toEqual(
        [
          `gateway.yaml:1: redis.nodes[0]: found "${node}"; expected a host and a port, such as redis-0.example:6379`,
        ],
      );
    },
  );
});

describe("in the file", () => {
  it.each([
    [
      "a misspelled key",
      "server:\n  prot: 1",
      "gateway.yaml:2: server.prot: unknown setting; did you mean server.port?",
    ],
    [
      "another spelling",
      "cache:\n  max-bytes: 1GiB",
      "gateway.yaml:2: cache.max-bytes: unknown setting; did you mean cache.maxBytes?",
    ],
    [
      "a key in the wrong section",
      "port: 1",
      "gateway.yaml:1: port: unknown setting; did you mean server.port or admin.port?",
    ],
    [
      "a key like no other",
      "log:\n  colour: red",
      "gateway.yaml:2: log.colour: unknown setting; known in log: level, access, accessSample",
    ],
    [
      "a prototype",
      "log:\n  __proto__: { level: debug }",
      "gateway.yaml:2: log.__proto__: unknown setting; known in log: level, access, accessSample",
    ],
    [
      "text for a number",
      "server:\n\n  port: '80'",
      'gateway.yaml:3: server.port: found "80"; expected a port number from 0 to 65535, where 0 means any free port',
    ],
    [
      "a number without a unit",
      "cache:\n  ttl:\n    sold: 300",
      `gateway.yaml:3: cache.ttl.sold: found 300; expected ${LIFETIME}`,
    ],
    [
      "a lifetime of zero",
      "cache: { ttl: { sold: 0s } }",
      `gateway.yaml:1: cache.ttl.sold: found "0s"; expected ${LIFETIME}`,
    ],
    [
      "nothing",
      "server:\n  port:",
      "gateway.yaml:2: server.port: found nothing; expected a port number from 0 to 65535, where 0 means any free port",
    ],
    [
      "a value for a section",
      "cache: 5m",
      'gateway.yaml:1: cache: found "5m"; expected a section with settings below it',
    ],
    [
      "a list for a section",
      "log: [info]",
      "gateway.yaml:1: log: found a list; expected a section with settings below it",
    ],
    [
      "a section for a value",
      "server:\n  port: { a: 1 }",
      "gateway.yaml:2: server.port: found a section; expected a port number from 0 to 65535, where 0 means any free port",
    ],
    [
      "a timer that is too long",
      "upstream: { connectTimeout: 25d }",
      `gateway.yaml:1: upstream.connectTimeout: found "25d"; expected ${DURATION}`,
    ],
    [
      "a record path with a part missing",
      "upstream:\n  recordPath: /{resource}",
      'gateway.yaml:2: upstream.recordPath: found "/{resource}"; expected a path with {resource} and {serviceId} as segments, such as /{resource}/{serviceId}',
    ],
    [
      "a path outside the resources",
      "upstream:\n  passThrough:\n    - /areas/*\n    - /admin/x",
      'gateway.yaml:4: upstream.passThrough[1]: found "/admin/x"; expected a path below /listings, /sold or /areas, such as /listings/{serviceId}/similar or /areas/*',
    ],
    [
      "a resource itself as a path",
      "upstream: { passThrough: [/areas] }",
      'gateway.yaml:1: upstream.passThrough[0]: found "/areas"; expected a path below /listings, /sold or /areas, such as /listings/{serviceId}/similar or /areas/*',
    ],
    [
      "too many labels of unlisted apps",
      "metrics: { unlistedApps: 1001 }",
      "gateway.yaml:1: metrics.unlistedApps: found 1001; expected a whole number from 0 to 1000",
    ],
    [
      "more than half of the budget held back",
      "budget: { degradedReserve: 0.51 }",
      "gateway.yaml:1: budget.degradedReserve: found 0.51; expected a number from 0 to 0.5, such as 0.1",
    ],
    [
      "a percentage for a part",
      "budget:\n  reserve: 10%",
      'gateway.yaml:2: budget.reserve: found "10%"; expected a number from 0 to 0.9, such as 0.1',
    ],
    [
      "a reserve that leaves next to nothing",
      "budget:\n  reserve: 0.91",
      "gateway.yaml:2: budget.reserve: found 0.91; expected a number from 0 to 0.9, such as 0.1",
    ],
    ...REMOVED.map(({ path, instead }) => [
      `the removed ${path}`,
      `{ ${path.split(".").join(": { ")}: 1 ${"}".repeat(path.split(".").length)}`,
      `gateway.yaml:1: ${path}: this setting no longer exists. ${instead}`,
    ]),
    [
      "a way to use the budget that there is not",
      "budget: { mode: dry-run }",
      'gateway.yaml:1: budget.mode: found "dry-run"; expected one of enforce, observe',
    ],
    [
      "more than a day without Redis",
      "budget: { degradedFor: 25h }",
      'gateway.yaml:1: budget.degradedFor: found "25h"; expected a duration from 1ms to 1d, such as 250ms, 5m or 1h',
    ],
    [
      "a ledger too small",
      "ledger: { maxRecords: 999 }",
      "gateway.yaml:1: ledger.maxRecords: found 999; expected a whole number from 1000 to 10000000",
    ],
    [
      "a ledger kept too long",
      "ledger: { retention: 366d }",
      `gateway.yaml:1: ledger.retention: found "366d"; expected ${LIFETIME}`,
    ],
    [
      "a bound of zero on all ages",
      "cache: { maxAgeEver: 0s }",
      `gateway.yaml:1: cache.maxAgeEver: found "0s"; expected ${LIFETIME}`,
    ],
    [
      "a list of settings",
      "- server",
      'gateway.yaml: expected settings, as in "server:" and below it "port: 8080"',
    ],
    ["a key twice", "log: {}\nlog: {}", "gateway.yaml:2: not valid YAML: a key is given twice"],
    ["a tab", "log:\n\tlevel: info", "gateway.yaml:2: not valid YAML: a tab is used to indent"],
    [
      "an alias of nothing",
      "log: *none",
      "gateway.yaml: not valid YAML: an alias (*name) has no anchor, or there are too many",
    ],
  ])("%s", (_, yaml, line) => {
    expect(problemsOfFile(yaml)).toEqual([line]);
  });

  it("reports every problem, in the file and in the environment", () => {
    const yaml = "server: { port: x }\nquery: { unknown: ignore }\nledgers: 1\nbudget: { limit: 1 }";
    expect(problemsOfFile(yaml, { ...MINIMAL, LOG_LEVEL: "loud", UPSTREAM_URL: "ftp://x" })).toHaveLength(6);
  });

  it("reports a broken section also if the environment sets its values", () => {
    expect(problemsOfFile("server: 5", { ...MINIMAL, PORT: "80" })).toEqual([
      "gateway.yaml:1: server: found 5; expected a section with settings below it",
    ]);
  });

  it("reports an unreadable file, and not the settings it may contain", () => {
    expect(problemsOf({ CONFIG_FILE: "/etc/none.yaml", PORT: "x" })).toEqual([
      'environment variable CONFIG_FILE: "/etc/none.yaml" cannot be read (ENOENT); expected a YAML file of settings',
      expect.stringContaining("PORT"),
    ]);
  });
});

describe("the private key's file", () => {
  const { UPSTREAM_PRIVATE_KEY: _, ...rest } = MINIMAL;
  const at = "environment variable UPSTREAM_PRIVATE_KEY_FILE: upstream.privateKeyFile:";
  it.each([
    ["is not there", {}, '"/key" cannot be read (ENOENT); expected the path of a file that holds the key'],
    ["is empty", { "/key": "\n" }, '"/key" is empty; expected it to hold the key'],
    [
      "holds more",
      { "/key": "a\nb\n" },
      '"/key" does not hold a key; expected one line of text without blanks around it',
    ],
  ])("%s", (_, files, line) => {
    expect(problemsOf({ ...rest, UPSTREAM_PRIVATE_KEY_FILE: "/key" }, files)).toEqual([`${at} ${line}`]);
  });
});

it("shows a single duration for all kinds of answers at each kind", () => {
  expect(problemsOfFile("cache:\n  maxAgeEver: 1h\n  ttl: 400d")).toEqual(
    ["listings", "sold", "areas", "records", "images"].map(
      (kind) => `gateway.yaml:3: cache.ttl.${kind}: found "400d"; expected ${LIFETIME}`,
    ),
  );
});

const SECTION = "a section with settings below it";
const DURATIONS = "one duration for all kinds of answers, such as 5m, or a section with one for each";

it.each([
  ["what is no duration", "cache: { ttl: 5 minutes }", 'cache.ttl: found "5 minutes"', DURATIONS],
  ["a number", "cache: { ttl: 5 }", "cache.ttl: found 5", DURATIONS],
  ["a duration over what is not durations alone", "budget: 5m", 'budget: found "5m"', SECTION],
])("does not accept %s as a section of durations", (_name, yaml, fault, expected) => {
  expect(problemsOfFile(yaml)).toEqual([`gateway.yaml:1: ${fault}; expected ${expected}`]);
});

describe("no message contains a secret", () => {
  const secret = "pr1vate-0f-acme";
  it.each<[string, Record<string, string>, string]>([
    ["malformed", { UPSTREAM_PRIVATE_KEY: ` ${secret}` }, ""],
    ["of the wrong type", { UPSTREAM_PRIVATE_KEY: "" }, `upstream: { privateKey: [${secret}] }`],
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
    [
      "in the URL of a Sentinel",
      { REDIS_URL: "redis://h" },
      `redis: { sentinel: { nodes: ["redis://:${secret}@h:26379"] } }`,
    ],
    ["in an address of Redis that cannot be decoded", { REDIS_URL: `redis://:${secret}%@h` }, ""],
    ["in a good address with a bad mode", { REDIS_URL: `redis://:${secret}@h` }, "redis: { mode: sentinel }"],
    ["in a token that cannot stand in a header", { ADMIN_TOKEN: `${secret} ` }, ""],
    ["in a token beside a file", { ADMIN_TOKEN: secret, ADMIN_TOKEN_FILE: "/token" }, ""],
    ["in a token given as the file", { ADMIN_TOKEN_FILE: secret }, ""],
    ["in a token given elsewhere too", { ADMIN_TOKEN: secret, UPSTREAM_SERVICE: `${secret}/x` }, ""],
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
