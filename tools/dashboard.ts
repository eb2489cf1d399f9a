/** The dashboard in Grafana's format. dashboard.yaml has its rows and panels. */
import { readFileSync } from "node:fs";

import { parse } from "yaml";

interface PanelSpec {
  readonly title: string;
  readonly description: string;
  /** The name of a unit in Grafana. */
  readonly unit: string;
  /** PromQL by legend. */
  readonly queries: Readonly<Record<string, string>>;
  readonly as?: "stacked" | "states" | "number";
  readonly levels?: {
    readonly good: "high" | "low";
    readonly warning: number;
    readonly critical: number;
  };
}

interface RowSpec {
  readonly title: string;
  readonly panels: readonly PanelSpec[];
}

/** What `$chosen` in a query stands for: the selection at the top of the dashboard. */
const CHOSEN = 'job=~"$job", instance=~"$instance"';

function rowSpecs(): readonly RowSpec[] {
  const rows: readonly RowSpec[] = parse(readFileSync(new URL("dashboard.yaml", import.meta.url), "utf8"));
  return rows;
}

/** Of Grafana 11 and later. */
const SCHEMA_VERSION = 41;
const GRID_WIDTH = 24;
const PANEL = { w: 8, h: 8 };
const NUMBER = { w: 6, h: 4 };
const DATASOURCE = { type: "prometheus", uid: "${datasource}" };

/** Values of `gateway_circuit_state` and `gateway_store_breaker_state`. */
const STATES = {
  type: "value",
  options: {
    "0": { text: "closed", color: "green", index: 0 },
    "1": { text: "half-open", color: "orange", index: 1 },
    "2": { text: "open", color: "red", index: 2 },
  },
};

export function dashboard(): object {
  return {
    uid: "property-gateway",
    title: "property-gateway",
    description:
      "The gateway in front of the property API. Metrics: docs/internals/metrics.md; alerts: docs/runbook.md.",
    tags: ["property-gateway"],
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    timezone: "browser",
    annotations: { list: [] },
    links: [],
    templating: {
      list: [
        { name: "datasource", label: "Data source", type: "datasource", query: "prometheus" },
        variable("job", "Job", "label_values(gateway_build_info, job)"),
        variable("instance", "Instance", 'label_values(gateway_build_info{job=~"$job"}, instance)'),
      ],
    },
    panels: panels(rowSpecs()),
  };
}

function variable(name: string, label: string, query: string): object {
  return {
    name,
    label,
    type: "query",
    datasource: DATASOURCE,
    definition: query,
    query: { query, refId: name },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: ".+",
    current: { selected: true, text: ["All"], value: ["$__all"] },
  };
}

/** Places the rows one below the other, and the panels of a row from left to right. */
function panels(rows: readonly RowSpec[]): object[] {
  const placed: object[] = [];
  let y = 0;
  for (const { title, panels: specs } of rows) {
    placed.push({
      id: placed.length + 1,
      type: "row",
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: GRID_WIDTH, h: 1 },
      panels: [],
    });
    y += 1;
    let x = 0;
    let height = 0;
    for (const spec of specs) {
      const size = spec.as === "number" ? NUMBER : PANEL;
      if (x + size.w > GRID_WIDTH) {
        y += height;
        x = 0;
        height = 0;
      }
      placed.push({ id: placed.length + 1, ...panel(spec), gridPos: { x, y, ...size } });
      x += size.w;
      height = Math.max(height, size.h);
    }
    y += height;
  }
  return placed;
}

function panel({ title, description, unit, as, levels, queries }: PanelSpec): object {
  return {
    title,
    description,
    datasource: DATASOURCE,
    targets: Object.entries(queries).map(([legend, expr], index) => ({
      refId: "ABCDEFGH".charAt(index),
      datasource: DATASOURCE,
      expr: expr.replaceAll("$chosen", () => CHOSEN),
      legendFormat: legend,
      range: true,
    })),
    ...look(unit, as, levels),
  };
}

/** Colours by value. A number without levels has no colour, because its values are neither good nor bad. */
function thresholds(levels: PanelSpec["levels"]): object {
  if (levels === undefined) return { mode: "absolute", steps: [{ color: "text", value: null }] };
  const { good, warning, critical } = levels;
  const steps =
    good === "low"
      ? [
          { color: "green", value: null },
          { color: "orange", value: warning },
          { color: "red", value: critical },
        ]
      : [
          { color: "red", value: null },
          { color: "orange", value: critical },
          { color: "green", value: warning },
        ];
  return { mode: "absolute", steps };
}

function look(unit: string, as: PanelSpec["as"], levels: PanelSpec["levels"]): object {
  const ratio = unit === "percentunit" ? { min: 0, max: 1 } : { min: 0 };
  switch (as) {
    case "number":
      return {
        type: "stat",
        fieldConfig: { defaults: { unit, ...ratio, thresholds: thresholds(levels) }, overrides: [] },
        options: { reduceOptions: { calcs: ["lastNotNull"], fields: "", values: false }, graphMode: "area" },
      };
    case "states":
      return {
        type: "state-timeline",
        fieldConfig: { defaults: { unit, mappings: [STATES] }, overrides: [] },
        options: {
          mergeValues: true,
          showValue: "never",
          legend: { displayMode: "list", placement: "bottom" },
        },
      };
    case "stacked":
    case undefined: {
      const stacking = { mode: as === "stacked" ? "normal" : "none", group: "A" };
      const custom = { drawStyle: "line", lineWidth: 1, fillOpacity: as === "stacked" ? 25 : 0, stacking };
      return {
        type: "timeseries",
        fieldConfig: { defaults: { unit, ...ratio, custom }, overrides: [] },
        options: {
          legend: { displayMode: "list", placement: "bottom", showLegend: true },
          tooltip: { mode: "multi", sort: "desc" },
        },
      };
    }
  }
}
