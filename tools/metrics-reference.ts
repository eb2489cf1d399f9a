import type { Label } from "../src/telemetry/labels.ts";
import { type Metric, METRICS } from "../src/telemetry/metric-table.ts";

const INTRODUCTION = `# Metrics

<!-- Written by \`npm run generate\` from src/telemetry/metric-table.ts and src/telemetry/labels.ts. -->

\`GET /metrics\` on the admin port shows these metrics in Prometheus' text format. \`…_total\` is a counter; others are gauges or
histograms. Each process shows its own; with Redis, the limits and what remains of them (\`…budget_limit\`, \`…budget_remaining\`) and
the circuits are those of all replicas. A series with labels appears when it is counted for the first time.
`;

/** The reference of all metrics, in alphabetical order, and of their labels. */
export function metricsReference(): string {
  return [INTRODUCTION, ...METRICS.map(line), "", labelsOf(METRICS)].join("\n");
}

function line({ name, type, labels, help }: Metric): string {
  const named = labels.length > 0 ? `${name}{${labels.map((label) => label.name).join(",")}}` : name;
  return `- ${code(named)}: ${help}${type === "histogram" ? " (histogram)" : ""}`;
}

/** A label has a line for each set of values. The line of the set that most metrics have comes without their names. */
function labelsOf(metrics: readonly Metric[]): string {
  const uses = new Map<Label, string[]>();
  for (const { name, labels } of metrics)
    for (const label of labels) uses.set(label, [...(uses.get(label) ?? []), name]);
  const sorted = [...uses].toSorted(
    ([one, its], [other, others]) => one.name.localeCompare(other.name) || its.length - others.length,
  );
  const lines = sorted.map(([label, names]) => {
    const others = sorted.filter(([other]) => other !== label && other.name === label.name);
    const isMost = others.every(([, theirs]) => theirs.length < names.length);
    const of = isMost ? (others.length > 0 ? " elsewhere" : "") : ` of ${names.map(code).join(", ")}`;
    return `- ${code(label.name)}${of}: ${valuesOf(label)}`;
  });
  return ["## Labels", "", ...lines, ""].join("\n");
}

/** The meaning explains the label or some of its values, or links to the page that lists them. No value is listed twice. */
function valuesOf({ meaning, values }: Label): string {
  const codes = meaning.includes("](") ? [] : values.map(code);
  const listed = codes.filter((value) => !meaning.includes(value));
  const parts = listed.length < codes.length ? [listed.join(", "), meaning] : [meaning, listed.join(", ")];
  return parts.filter((part) => part !== "").join(listed.length < codes.length ? "; " : ": ");
}

function code(text: string): string {
  return `\`${text}\``;
}
