/** The chart's README: its values as a table, from the comments in values.yaml. */
import { readFileSync } from "node:fs";

import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from "yaml";

const CHART = new URL("../helm/property-gateway/", import.meta.url);

const INTRODUCTION = `# property-gateway

<!-- Written by \`npm run generate\` from values.yaml. -->

This chart installs property-gateway, the gateway that a company puts in front of a third-party property API.

\`\`\`
kubectl create secret generic upstream --from-file=private-key=./private-key.txt

helm install gateway helm/property-gateway \\
  --set config.upstream.url=https://api.example.com \\
  --set config.upstream.callerId=acme \\
  --set config.budget.limit='60/1m\\,10000/1d' \\
  --set privateKey.existingSecret=upstream \\
  --set image.registry=registry.example.com
\`\`\`

\`docs/kubernetes.md\` of the project explains the choices: Redis, scaling, network, monitoring. \`config/default.yaml\`
lists the settings that \`config\` accepts. Helm refuses values that it does not know, and values that do not fit together.

## Values
`;

interface Row {
  readonly key: string;
  readonly value: string;
  readonly meaning: string;
}

/** @returns the text of helm/property-gateway/README.md */
export function chartReadme(): string {
  const { contents } = parseDocument(readFileSync(new URL("values.yaml", CHART), "utf8"));
  if (!isMap(contents)) throw new Error("values.yaml is not a map");
  const rows = rowsOf(contents, "");
  return [
    INTRODUCTION,
    "| Value | Default | Meaning |",
    "| --- | --- | --- |",
    ...rows.map(({ key, value, meaning }) => `| \`${key}\` | ${value} | ${meaning} |`),
    "",
  ].join("\n");
}

/**
 * Each value is one row. A section with a comment has a row of its own before its values. An opaque value is one row,
 * because its parts belong to Kubernetes' API.
 */
function rowsOf(map: YAMLMap, prefix: string): Row[] {
  return map.items.flatMap((pair, index): Row[] => {
    const comment = commentOf(map, pair, index);
    const key = prefix + nameOf(pair);
    const { value } = pair;
    const isSection = isMap(value) && value.items.length > 0 && !value.flow && !OPAQUE.has(nameOf(pair));
    if (!isSection) return [{ key, value: code(JSON.stringify(toPlain(value))), meaning: textOf(comment) }];
    const heading = textOf(comment);
    return [...(heading === "" ? [] : [{ key, value: "", meaning: heading }]), ...rowsOf(value, `${key}.`)];
  });
}

/** Values that are parts of Kubernetes' own API: one row each. */
const OPAQUE: ReadonlySet<string> = new Set([
  "resources",
  "spec",
  "endpoint",
  "behavior",
  "startupProbe",
  "livenessProbe",
  "readinessProbe",
  "podSecurityContext",
  "securityContext",
]);

function nameOf({ key }: Pair): string {
  return isScalar(key) ? String(key.value) : "";
}

/** The library assigns the comment above the first key to the map. */
function commentOf(map: YAMLMap, { key }: Pair, index: number): string {
  const own = isScalar(key) ? (key.commentBefore ?? "") : "";
  const first = index === 0 ? (map.commentBefore ?? "") : "";
  return own === "" ? first : own;
}

/** @returns the text after `--`, if there is any; a remark about the file may precede it. An indented list becomes code. */
function textOf(comment: string): string {
  const marked = comment.split(/^ -- /m).at(-1) ?? "";
  return marked
    .split("\n")
    .map((line) => line.replaceAll(/<(?=\w)/g, "&lt;"))
    .map((line) => line.replace(/^ {3}(\S+) +(.*)$/, "<br>`$1`: $2").trim())
    .join(" ")
    .replaceAll("|", "\\|")
    .trim();
}

function toPlain(value: unknown): unknown {
  const isNode = typeof value === "object" && value !== null && "toJSON" in value;
  return isNode && typeof value.toJSON === "function" ? value.toJSON() : null;
}

function code(text: string): string {
  return `\`${text.replaceAll("|", "\\|")}\``;
}
