import type { Metric } from "../src/telemetry/instruments.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { build } from "../src/telemetry/process-metrics.ts";
import type { LabelValues } from "../src/telemetry/labels.ts";

const INTRODUCTION = `# Metrics

<!-- Written by \`npm run generate\` from src/telemetry/metrics.ts and src/telemetry/labels.ts. -->

\`GET /metrics\` on the admin port shows these metrics in Prometheus' text format. Each process shows its own; with Redis, only
\`gateway_budget_limit\` and \`gateway_budget_remaining\` are those of all replicas together. The values of each label are a closed
set, or come from the settings; of the apps that the settings do not list, the first 20 get a label of their own. A series with
labels appears when it is counted for the first time. [runbook.md](../runbook.md#alerts) lists the alerts on these metrics.
`;

const CATALOGUE = createMetrics(build).catalogue;

/** The reference of all metrics: a table per part of the gateway. */
export function metricsReference(): string {
  const sections = CATALOGUE.map(({ title, metrics }) =>
    [`## ${title}`, "", "| Metric | Labels | Meaning |", "| --- | --- | --- |", ...metrics.map(row), ""].join(
      "\n",
    ),
  );
  return [INTRODUCTION, ...sections, labelsOf(CATALOGUE.flatMap(({ metrics }) => metrics))].join("\n");
}

function row({ name, type, labels, help }: Metric): string {
  const named = Object.keys(labels).map(code).join(", ");
  return `| ${code(name)} | ${named} | ${help} (${type}) |`;
}

/** If a label has different values for different metrics, it has a row for each set of values. */
function labelsOf(metrics: readonly Metric[]): string {
  const uses = new Map<LabelValues, { label: string; names: string[] }>();
  for (const { name, labels } of metrics) {
    for (const [label, values] of Object.entries(labels)) {
      const use = uses.get(values) ?? { label, names: [] };
      use.names.push(name);
      uses.set(values, use);
    }
  }
  const rows = [...uses].map(
    ([values, { label, names }]) =>
      `| ${code(label)} | ${names.map(code).join(", ")} | ${valuesOf(values)} |`,
  );
  return ["## Labels", "", "| Label | Of | Values |", "| --- | --- | --- |", ...rows, ""].join("\n");
}

/** The meaning explains the label, or some of its values. Values that it names are not listed again. */
function valuesOf({ meaning = "", values = [] }: LabelValues): string {
  const codes = values.map(code);
  const listed = codes.filter((value) => !meaning.includes(value));
  const parts = listed.length < codes.length ? [listed.join(", "), meaning] : [meaning, listed.join(", ")];
  return parts.filter((part) => part !== "").join(listed.length < codes.length ? "; " : ": ");
}

function code(text: string): string {
  return `\`${text}\``;
}
