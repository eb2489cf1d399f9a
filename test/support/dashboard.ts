/** The dashboard that comes with the gateway, as far as tests read it. */
import { readFileSync } from "node:fs";

import type { Anything } from "./files.ts";

interface Panel {
  readonly targets?: readonly Anything[];
  readonly [field: string]: Anything;
}

type Dashboard = { panels: readonly Panel[]; templating: { list: readonly Anything[] } };
export const DASHBOARD: Dashboard = JSON.parse(
  readFileSync("helm/property-gateway/files/dashboard.json", "utf8"),
);
/** All but the headings. */
export const PANELS = DASHBOARD.panels.filter(({ type }) => type !== "row");

/** As Grafana sends it when everything is chosen. */
export function asSent(expr: string, rateInterval: string): string {
  const values = new Map<string, string>(
    DASHBOARD.templating.list.map(({ name, allValue }) => [name, allValue]),
  );
  values.set("__rate_interval", rateInterval);
  values.set("__range", rateInterval);
  return expr.replaceAll(/\$(\w+)/g, (text, name: string) => values.get(name) ?? text);
}
