/** The types of the dashboard's panels, and their common queries. */

export interface PanelSpec {
  readonly title: string;
  readonly description: string;
  /** The name of a unit in Grafana. */
  readonly unit: string;
  readonly queries: readonly QuerySpec[];
  /** Lines if absent. `states`: the state of a circuit or breaker over time. `number`: the latest value. */
  readonly as?: "stacked" | "states" | "number";
  /** The values at which the colour changes. If high values are good, the lowest range is red. */
  readonly levels?: Levels;
}

interface Levels {
  readonly good: "high" | "low";
  readonly warning: number;
  readonly critical: number;
}

export interface QuerySpec {
  readonly expr: string;
  readonly legend: string;
}

export interface RowSpec {
  readonly title: string;
  readonly panels: readonly PanelSpec[];
}

/** The selection at the top of the dashboard. */
const CHOSEN = 'job=~"$job", instance=~"$instance"';

export function series(name: string, matchers = ""): string {
  return `${name}{${CHOSEN}${matchers === "" ? "" : `, ${matchers}`}}`;
}

export function rate(name: string, matchers = ""): string {
  return `rate(${series(name, matchers)}[$__rate_interval])`;
}

export function rateBy(label: string, name: string, matchers = ""): QuerySpec {
  return { expr: `sum by (${label}) (${rate(name, matchers)})`, legend: `{{${label}}}` };
}

export function shareOf(name: string, part: string, whole: string): string {
  return `sum(${rate(name, part)}) / sum(${rate(name, whole)})`;
}

/** Quantiles of a histogram, by a label if one is given. */
export function quantiles(name: string, label?: string): QuerySpec[] {
  const by = label === undefined ? "le" : `${label}, le`;
  return [0.5, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (${by}) (${rate(`${name}_bucket`)}))`,
    legend: [label && `{{${label}}}`, `p${quantile * 100}`].filter(Boolean).join(" "),
  }));
}

/** `increase` over the time that the dashboard shows. */
export function increase(name: string, matchers = ""): string {
  return `increase(${series(name, matchers)}[$__range])`;
}

export const ANSWERED = 'outcome=~"hit|updating|stale|miss|collapsed"';
/** A connection that was closed while idle is not a failure of the upstream. */
export const CALLED = 'status!~"stale-connection|given-up|no-descriptor"';
export const FAILED = `status=~"5..|[a-z].*", ${CALLED}`;
