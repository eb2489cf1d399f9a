/** Creates the library's counters, gauges and histograms from the catalogue. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";

import type { Metric } from "./catalogue.ts";

/** The label values and the value of one series. */
type Sample<L extends string> = readonly [Readonly<Record<L, string>>, number];

export interface Instruments {
  readonly counter: <L extends string>(metric: Metric<"counter", L>) => Counter<L>;
  readonly gauge: <L extends string>(metric: Metric<"gauge", L>) => Gauge<L>;
  readonly histogram: <L extends string>(metric: Metric<"histogram", L>) => Histogram<L>;
  /** Registers a metric that is read at every scrape. */
  readonly sampled: <L extends string>(
    metric: Metric<"gauge" | "counter", L>,
    read: () => readonly Sample<L>[],
  ) => void;
  /** The same for a metric without labels. */
  readonly sampledAlone: (metric: Metric<"gauge" | "counter", never>, read: () => number) => void;
}

export function createInstruments(registry: Registry): Instruments {
  const sampled: Instruments["sampled"] = (metric, read) => {
    const settings = common(metric);
    if (metric.type === "counter") {
      const collect = function (this: Counter): void {
        this.reset();
        for (const [labels, value] of read()) this.inc(labels, value);
      };
      registry.registerMetric(new Counter({ ...settings, registers: [], collect }));
      return;
    }
    const collect = function (this: Gauge): void {
      // Removes series that no longer exist, such as a window of earlier settings.
      this.reset();
      for (const [labels, value] of read()) this.set(labels, value);
    };
    registry.registerMetric(new Gauge({ ...settings, registers: [], collect }));
  };
  return {
    counter: (metric) => new Counter({ ...common(metric), registers: [registry] }),
    gauge: (metric) => new Gauge({ ...common(metric), registers: [registry] }),
    histogram: (metric) =>
      new Histogram({ ...common(metric), buckets: [...(metric.buckets ?? [])], registers: [registry] }),
    sampled,
    sampledAlone: (metric, read) => sampled<never>(metric, () => [[{}, read()]]),
  };
}

function common<L extends string>({
  name,
  help,
  labels,
}: Metric<Metric["type"], L>): {
  name: string;
  help: string;
  labelNames: L[];
} {
  const isLabel = (key: string): key is L => key in labels;
  return { name, help, labelNames: Object.keys(labels).filter(isLabel) };
}
