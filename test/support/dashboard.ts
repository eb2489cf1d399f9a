/** The dashboard that comes with the gateway, as far as tests read it. */
import { readFileSync } from "node:fs";

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: { readonly uid: string };
  readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[];
  readonly fieldConfig?: {
    readonly defaults: {
      readonly unit?: string;
      readonly thresholds?: {
        readonly steps: readonly { readonly color: string; readonly value: number | null }[];
      };
    };
  };
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly definition?: string;
      readonly allValue?: string;
    }[];
  };
}

export const DASHBOARD: Dashboard = JSON.parse(
  readFileSync("helm/property-gateway/files/dashboard.json", "utf8"),
);

/** All but the headings. */
export const PANELS = DASHBOARD.panels.filter(({ type }) => type !== "row");

/** As Grafana sends it when everything is chosen. */
export function asSent(expr: string, rateInterval: string): string {
  const values = new Map(DASHBOARD.templating.list.map(({ name, allValue }) => [name, allValue]));
  values.set("__rate_interval", rateInterval);
  values.set("__range", rateInterval);
  return expr.replaceAll(/\$(\w+)/g, (text, name: string) => values.get(name) ?? text);
}
