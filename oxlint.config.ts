import { defineConfig } from "oxlint";

/**
 * The architecture's import rules, as lint rules (ARCHITECTURE.md, "What may import what").
 *
 * Each library has one home, each layer a list of layers it may see. An override replaces the
 * rule it overrides, so every folder's full list is composed here and stated once.
 */

const OPEN_TELEMETRY = ["api", "exporter-trace-otlp-http", "exporter-trace-otlp-proto", "resources"]
  .concat("sdk-trace-base")
  .map((name) => `@opentelemetry/${name}`);

/** A library and the only files that may import it. */
const HOMES: Record<string, { names: string[]; at: string[] }> = {
  express: { names: ["express"], at: ["src/http/**", "src/admin/**", "src/sandbox/**"] },
  bottleneck: { names: ["bottleneck"], at: ["src/ratelimit/calls.ts"] },
  proxy: { names: ["http-proxy-middleware"], at: ["src/upstream/pass-through.ts"] },
  prometheus: { names: ["prom-client"], at: ["src/telemetry/**"] },
  pino: { names: ["pino"], at: ["src/telemetry/**"] },
  "proxy-addr": { names: ["proxy-addr"], at: ["src/telemetry/access-log.ts"] },
  openTelemetry: { names: OPEN_TELEMETRY, at: ["src/telemetry/tracing.ts"] },
  yaml: { names: ["yaml"], at: ["src/config/**"] },
  zod: {
    names: ["zod"],
    at: ["src/config/**", "src/admin/**", "src/sandbox/**", "src/redis/messages.ts"],
  },
  sqlite: { names: ["node:sqlite"], at: ["src/sqlite/**"] },
  redis: {
    names: ["ioredis"],
    at: [
      "src/redis/**",
      "src/cache/store/redis*.ts",
      "src/singleflight/redis*.ts",
      "src/ratelimit/**/redis*.ts",
    ],
  },
  lru: {
    names: ["lru-cache"],
    at: [
      "src/cache/store/**",
      "src/cache/recent-failures.ts",
      "src/cache/refresh.ts",
      "src/pages/page-by-page.ts",
      "src/query/known-targets.ts",
      "src/ratelimit/apps.ts",
      "src/ratelimit/circuits/circuits.ts",
      "src/singleflight/replica-leases.ts",
      "src/usage/redis-ledger.ts",
    ],
  },
};

const IO_MODULES = [
  "node:fs",
  "node:fs/promises",
  "node:net",
  "node:http",
  "node:https",
  "node:http2",
  "node:tls",
  "node:child_process",
  "node:dgram",
  "node:dns",
  "node:worker_threads",
  "node:cluster",
  "node:sqlite",
  "node:timers",
  "node:timers/promises",
  "node:process",
];

/** The stages of a request. Each is handed what comes next, so none sees another one. */
const STAGES = ["http", "admin", "pages", "cache", "singleflight", "ratelimit", "upstream"];
/** Every stage may name the types of the settings and of the metrics that it reports. */
const WIRED = ["config", "telemetry"];
/** Seen by whoever needs them; they see no stage. */
const SERVICES = ["usage", "config", "redis", "sqlite", "process", "telemetry"];

/**
 * A folder (or file) of src/ and the folders of src/ it may not see. `typesOf`: it may see only their types. `pure`: nothing
 * with I/O.
 */
interface Layer {
  files: string[];
  mayNotSee: string[];
  typesOf?: string[];
  pure?: boolean;
}

/** A layer that sees only these folders, besides its own, the reported events and the files at the root of src/. */
function layer(
  files: string[],
  maySee: string[],
  options: { typesOf?: string[]; pure?: boolean } = {},
): Layer {
  const own = files.map((file) => file.split("/")[1] ?? "");
  const all = ["interface", "query", "openapi", ...STAGES, ...SERVICES, "sandbox", "cli"];
  return { files, mayNotSee: all.filter((folder) => ![...own, ...maySee].includes(folder)), ...options };
}

const LAYERS: Layer[] = [
  layer(["src/interface/**"], [], { pure: true }),
  layer(["src/query/**"], ["interface"], { pure: true, typesOf: ["config"] }),
  layer(["src/openapi/**"], ["interface"], { pure: true }),
  // A stage may name the types of the stages after it: a type lives beside the code that makes its values.
  layer(["src/http/**"], ["interface", "query", "process"], {
    typesOf: ["pages", "cache", "upstream", "ratelimit", ...WIRED],
  }),
  // The operators' port shows what every part knows, so it may name the types of every part.
  layer(
    ["src/admin/**"],
    ["interface", "query", "openapi", "http", "pages", "cache", "ratelimit", "usage", "config", "process"],
    { typesOf: ["redis", "sqlite"] },
  ),
  layer(["src/pages/**"], ["interface", "query", "process"], { typesOf: ["cache", ...WIRED] }),
  layer(["src/cache/**"], ["interface", "query", "process"], {
    typesOf: ["singleflight", "upstream", "ratelimit", ...WIRED],
  }),
  layer(["src/singleflight/**"], ["query", "process", "redis"], { typesOf: ["ratelimit", ...WIRED] }),
  layer(["src/ratelimit/**"], ["interface", "usage", "process", "redis", "sqlite"], { typesOf: WIRED }),
  layer(["src/upstream/**"], ["interface", "query", "process"], { typesOf: ["ratelimit", ...WIRED] }),
  layer(["src/usage/**"], ["interface", "ratelimit", "process", "redis", "sqlite"]),
  layer(["src/config/**"], ["interface", "process"]),
  layer(["src/redis/**"], ["interface", "config", "process"]),
  layer(["src/sqlite/**"], ["process"]),
  layer(["src/process/**"], []),
  layer(["src/telemetry/**"], ["interface", "process"]),
  layer(["src/sandbox/**"], ["interface", "config", "process"]),
  // Where answers are stored: the only part of the cache that sees Redis and SQLite.
  layer(["src/cache/store/**"], ["interface", "query", "process", "redis", "sqlite"]),
  // What finds and cuts pages in bytes.
  layer(["src/pages/json-ranges.ts", "src/pages/block-index.ts", "src/pages/cut-page.ts"], ["interface"], {
    pure: true,
  }),
  // Last, because the last override that matches a file is the one that counts.
  layer(
    ["src/cache/serve-or-fetch.ts", "src/cache/freshness.ts", "src/cache/same-meaning.ts"],
    ["interface", "query"],
    { pure: true, typesOf: ["upstream", "config"] },
  ),
  layer(
    [
      "src/ratelimit/limits/{window-log,purse-in-memory,purse-sizes}.ts",
      "src/ratelimit/fairness/**",
      "src/ratelimit/circuits/failures.ts",
      "src/ratelimit/circuits/probes.ts",
      "src/ratelimit/refusals.ts",
      "src/usage/rolling-maximum.ts",
      "src/usage/rate-window.ts",
    ],
    ["interface", "usage", "ratelimit", "process"],
    { pure: true },
  ),
];

type RestrictedImports = [
  "error",
  {
    paths: { name: string; message: string }[];
    patterns: { group: string[]; message: string; allowTypeImports: boolean }[];
  },
];

function restrictedImports(
  layer: Pick<Layer, "mayNotSee" | "typesOf" | "pure">,
  libraries: string[],
): RestrictedImports {
  return [
    "error",
    {
      paths: [
        ...libraries.map((name) => ({ name, message: "This library has one home: see ARCHITECTURE.md." })),
        ...(layer.pure ? IO_MODULES.map((name) => ({ name, message: "Pure layer: no I/O here." })) : []),
      ],
      patterns: layer.mayNotSee.map((folder) => ({
        group: [`**/${folder}/**`, "!**/telemetry/events.ts"],
        allowTypeImports: layer.typesOf?.includes(folder) ?? false,
        message: `This layer does not see ${folder}/: see ARCHITECTURE.md.`,
      })),
    },
  ];
}

const everyLibrary = Object.values(HOMES).flatMap((home) => home.names);

/** Libraries whose home is neither this folder nor inside it. */
function librariesForbiddenIn(files: string[]): string[] {
  return Object.values(HOMES)
    .filter((home) => !home.at.some((at) => files.includes(at)))
    .flatMap((home) => home.names);
}

/** Homes that are one file inside a layer: the layer's rule, minus the library that lives there. */
const SINGLE_FILE_HOMES = Object.values(HOMES).flatMap((home) =>
  home.at.filter((at) => at.endsWith(".ts")).map((file) => ({ file, names: home.names })),
);

export default defineConfig({
  plugins: ["eslint", "typescript", "unicorn", "import", "node", "promise", "oxc"],
  categories: { correctness: "error", suspicious: "error", perf: "error" },
  ignorePatterns: ["node_modules"],
  rules: {
    "no-console": "error",
    "no-var": "error",
    "prefer-const": "error",
    eqeqeq: "error",
    "max-lines-per-function": ["error", { max: 60, skipBlankLines: true, skipComments: true }],
    "max-lines": ["error", { max: 400, skipBlankLines: true, skipComments: true }],
    complexity: ["error", { max: 16 }],
    "import/no-cycle": "error",
    "node/no-process-env": "error",
    "no-restricted-imports": restrictedImports({ mayNotSee: [] }, everyLibrary),
    "typescript/no-explicit-any": "error",
    "typescript/no-floating-promises": "error",
    "typescript/switch-exhaustiveness-check": "error",
    "typescript/explicit-module-boundary-types": "error",
    "typescript/consistent-type-imports": "error",
    "no-await-in-loop": "off",
    "no-shadow": "off",
    "unicorn/consistent-function-scoping": "off",
    // tsc (noImplicitReturns) knows exhaustive switches; this rule does not.
    "typescript/consistent-return": "off",
    "unicorn/no-array-sort": "off",
    "import/no-unassigned-import": "off",
    "import/no-named-as-default-member": "off",
    // Express 5 hands a rejection to the error handler.
    "oxc/no-async-endpoint-handlers": "off",
    "oxc/no-map-spread": "off",
  },
  overrides: [
    ...LAYERS.map((layer) => ({
      files: layer.files,
      rules: {
        "no-restricted-imports": restrictedImports(layer, librariesForbiddenIn(layer.files)),
      },
    })),
    ...SINGLE_FILE_HOMES.map(({ file, names }) => {
      const layer = LAYERS.findLast((candidate) =>
        candidate.files.some((glob) => file.startsWith(glob.replace("/**", "/"))),
      );
      return {
        files: [file],
        rules: {
          "no-restricted-imports": restrictedImports(
            layer ?? { mayNotSee: [] },
            everyLibrary.filter((name) => !names.includes(name)),
          ),
        },
      };
    }),
    { files: ["src/config/env.ts"], rules: { "node/no-process-env": "off" } },
    { files: ["src/start.mjs", "docs/clients/**"], rules: { "no-console": "off" } },
    {
      files: ["test/**", "bench/**", "tools/**", "helm/**", "*.config.ts"],
      rules: {
        "no-restricted-imports": "off",
        "node/no-process-env": "off",
        "max-lines-per-function": "off",
        "no-console": "off",
        "typescript/explicit-module-boundary-types": "off",
      },
    },
  ],
});
