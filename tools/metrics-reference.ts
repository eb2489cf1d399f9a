import type { Metric } from "../src/telemetry/instruments.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { build } from "../src/telemetry/process-metrics.ts";
import type { LabelValues } from "../src/telemetry/labels.ts";

const INTRODUCTION = `# Metrics

<!-- Written by \`npm run generate\` from src/telemetry/metrics.ts and src/telemetry/labels.ts. -->

\`GET /metrics\` on the admin port shows these metrics in Prometheus' text format. \`…_total\` is a counter; others are gauges or
histograms. Each process shows its own; with Redis, only \`gateway_budget_limit\` and \`gateway_budget_remaining\` are those of all
replicas together. A series with labels appears when it is counted for the first time.
`;

const CATALOGUE = createMetrics(build).catalogue;

/** The reference of all metrics: a list per part of the gateway. */
export function metricsReference(): string {
  const sections = CATALOGUE.map(({ title, metrics }) =>
    [`## ${title}`, "", ...metrics.map(line), ""].join("\n"),
  );
  return [INTRODUCTION, ...sections, labelsOf(CATALOGUE.flatMap(({ metrics }) => metrics))].join("\n");
}

function line({ name, type, labels, help }: Metric): string {
  const names = Object.keys(labels);
  const named = names.length > 0 ? `${name}{${names.join(",")}}` : name;
  return `- ${code(named)}: ${help}${type === "histogram" ? " (histogram)" : ""}`;
}

/** A label has a line for each set of values. The line of the set that most metrics have comes without their names. */
function labelsOf(metrics: readonly Metric[]): string {
  const uses = new Map<LabelValues, { label: string; names: string[] }>();
  for (const { name, labels } of metrics) {
    for (const [label, values] of Object.entries(labels)) {
      const use = uses.get(values) ?? { label, names: [] };
      use.names.push(name);
      uses.set(values, use);
    }
  }
  const sorted = [...uses].toSorted(
    ([, one], [, other]) => one.label.localeCompare(other.label) || one.names.length - other.names.length,
  );
  const lines = sorted.map(([values, use]) => {
    const others = [...uses.values()].filter((other) => other !== use && other.label === use.label);
    const isMost = others.every(({ names }) => names.length < use.names.length);
    const of = isMost ? (others.length > 0 ? " elsewhere" : "") : ` of ${use.names.map(code).join(", ")}`;
    return `- ${code(use.label)}${of}: ${valuesOf(values)}`;
  });
  return ["## Labels", "", ...lines, ""].join("\n");
}

/** The meaning explains the label or some of its values, or links to the page that lists them. No value is listed twice. */
function valuesOf({ meaning = "", values = [] }: LabelValues): string {
  const codes = meaning.includes("](") ? [] : values.map(code);
  const listed = codes.filter((value) => !meaning.includes(value));
  const parts = listed.length < codes.length ? [listed.join(", "), meaning] : [meaning, listed.join(", ")];
  return parts.filter((part) => part !== "").join(listed.length < codes.length ? "; " : ": ");
}

function code(text: string): string {
  return `\`${text}\``;
}
