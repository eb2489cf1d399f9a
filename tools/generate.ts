import { readFile, writeFile } from "node:fs/promises";

import { format } from "oxfmt";

import { defaultsYaml } from "./default-file.ts";
import { chartReadme } from "./chart-readme.ts";
import { chartValuesSchema } from "./chart-values.ts";
import { configJsonSchema } from "./config-json-schema.ts";
import { dashboard } from "./dashboard.ts";
import { licences } from "./licences.ts";
import { metricsReference } from "./metrics-reference.ts";
import { reloadableSettings } from "./reloadable.ts";
import { upgradingGuide } from "./removed-settings.ts";

/** A file that this tool writes and that is committed. */
export interface GeneratedFile {
  /** Relative to the project's folder. */
  readonly path: string;
  readonly content: string;
}

/** @returns all generated files with their expected content; `npm run generate` writes them */
export async function generatedFiles(): Promise<GeneratedFile[]> {
  const defaults = defaultsYaml();
  const schema = configJsonSchema();
  return [
    { path: "config/default.yaml", content: defaults },
    {
      path: "config/property-gateway.schema.json",
      content: await formatted("schema.json", JSON.stringify(schema)),
    },
    {
      path: "helm/property-gateway/values.schema.json",
      content: await formatted("values.schema.json", JSON.stringify(chartValuesSchema(schema))),
    },
    // A chart cannot read files outside its folder, and symbolic links do not work on all systems. So these are copies.
    { path: "helm/property-gateway/files/defaults.yaml", content: defaults },
    { path: "helm/property-gateway/files/reloadable.yaml", content: reloadableSettings() },
    { path: "docs/internals/metrics.md", content: metricsReference() },
    { path: "docs/upgrading.md", content: await upgradingGuide(inProject("docs/upgrading.md")) },
    { path: "docs/internals/licences.md", content: licences() },
    { path: "helm/property-gateway/README.md", content: chartReadme() },
    {
      path: "helm/property-gateway/files/rules.yaml",
      content: await readFile(inProject("deploy/prometheus/rules.yaml"), "utf8"),
    },
    {
      path: "helm/property-gateway/files/dashboard.json",
      content: await formatted("dashboard.json", JSON.stringify(dashboard())),
    },
  ];
}

/** @returns the URL of a file, from its path in the project */
export function inProject(path: string): URL {
  return new URL(`../${path}`, import.meta.url);
}

/** Formats a text as the formatter formats a file of that name. */
export async function formatted(name: string, text: string): Promise<string> {
  // The settings have no type here. The formatter checks them itself.
  const options = JSON.parse(await readFile(inProject(".oxfmtrc.json"), "utf8"));
  const { code, errors } = await format(name, text, options);
  if (errors.length > 0) throw new Error(`${name}: ${errors.map((error) => error.message).join(", ")}`);
  return code;
}

if (import.meta.main) {
  const files = await generatedFiles();
  await Promise.all(files.map(({ path, content }) => writeFile(inProject(path), content)));
  process.stdout.write(`${files.map(({ path }) => `wrote ${path}`).join("\n")}\n`);
}
