/** What a scrape shows, and whether it is what the catalogue of metrics says. */
import { type Metric, METRICS } from "../../src/telemetry/metric-table.ts";
import { ask } from "./ask.ts";

export interface Series {
  /** As it is written, without its value. */
  readonly text: string;
  /** Of the metric, without a histogram's suffix. */
  readonly metric: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The names that queries may use: those of the catalogue, and a histogram's three. */
export const QUERY_NAMES: readonly string[] = METRICS.flatMap(({ type, name }) =>
  type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
);

export async function scrape(gateway: { readonly adminUrl: string }): Promise<Series[]> {
  return seriesIn((await ask(`${gateway.adminUrl}/metrics`)).text);
}

function seriesIn(exposition: string): Series[] {
  const lines = exposition.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const [, text = "", name = "", labels = "", value = ""] =
      /^(([\w:]+)(?:\{(.*)\})?) (\S+)$/.exec(line) ?? [];
    const whole = name.replace(/_(bucket|sum|count)$/, "");
    const isPart = METRICS.some((metric) => metric.type === "histogram" && whole === metric.name);
    return {
      text,
      metric: isPart ? whole : name,
      labels: Object.fromEntries(
        [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, said]) => [key, said]),
      ),
      value: Number(value),
    };
  });
}

/** The series that are not of the catalogue, or have a label, or a label's value, that it does not know. */
export function strangersAmong(series: readonly Series[], apps: readonly string[]): string[] {
  return series.filter((one) => !isKnown(one, apps)).map(({ text }) => text);
}

function isKnown({ metric: name, labels }: Series, apps: readonly string[]): boolean {
  const metric = METRICS.find((candidate) => candidate.name === name);
  if (metric === undefined) return false;
  const { le, ...own } = labels;
  const isBucket =
    le === undefined || (metric.type === "histogram" && /^(\d+(\.\d+)?(e-\d+)?|\+Inf)$/.test(le));
  return isBucket && Object.entries(own).every(([label, value]) => isValue(metric, label, value, apps));
}

/** The form of values that no closed set has, by label. */
const OPEN: Readonly<Record<string, RegExp>> = {
  status: /^[1-9]\d\d$/,
  window: /^((images\/)?\d+(ms|s|m|h|d)|per-day)$/,
  version: /^\d+\.\d+\.\d+/,
  node: /^v\d+\.\d+\.\d+/,
};

function isValue({ labels }: Metric, label: string, value: string, apps: readonly string[]): boolean {
  const known = labels.find(({ name }) => name === label);
  if (known === undefined) return false;
  const isListed = label === "app" && apps.includes(value);
  return isListed || known.values.includes(value) || OPEN[label]?.test(value) === true;
}
