/** Creates the library's counters, gauges and histograms from the catalogue. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";

import type { Metric } from "./catalogue.ts";

/** The label values and the value of one series. */
type Sample<L extends string> = readonly [Readonly<Record<L, string>>, number];

/** The content of a histogram whose values were counted elsewhere. */
export interface Distribution<L extends string> {
  readonly labels: Readonly<Record<L, string>>;
  /** The values in each bucket, without those of smaller buckets. The last number counts values above all bounds. */
  readonly counts: readonly number[];
  readonly sum: number;
}

export interface Instruments {
  readonly counter: <L extends string>(metric: Metric<"counter", L>) => Counter<L>;
  readonly gauge: <L extends string>(metric: Metric<"gauge", L>) => Gauge<L>;
  readonly histogram: <L extends string>(metric: Metric<"histogram", L>) => Histogram<L>;
  /** Registers a metric that is read at every scrape. */
  readonly sampled: <L extends string>(
    metric: Metric<"gauge" | "counter", L>,
    read: () => readonly Sample<L>[],
  ) => void;
  /** Registers a histogram that is read at every scrape. */
  readonly distribution: <L extends string>(
    metric: Metric<"histogram", L>,
    read: () => readonly Distribution<L>[],
  ) => void;
  /** Registers a metric without labels that is read at every scrape. */
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
    distribution(metric, read) {
      registry.registerMetric(new SampledHistogram(metric, read));
    },
    sampledAlone: (metric, read) => sampled<never>(metric, () => [[{}, read()]]),
  };
}

/** One value of a scrape, in the form in which the library's histogram returns it. */
interface Exposed {
  readonly metricName: string;
  readonly labels: { readonly le?: number | "+Inf" };
  readonly sharedLabels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A histogram that is read at every scrape. The library's own histogram can only observe single values. */
class SampledHistogram<L extends string> extends Histogram<L> {
  readonly #metric: Metric<"histogram", L>;
  readonly #read: () => readonly Distribution<L>[];

  constructor(metric: Metric<"histogram", L>, read: () => readonly Distribution<L>[]) {
    super({ ...common(metric), buckets: [...(metric.buckets ?? [])], registers: [] });
    this.#metric = metric;
    this.#read = read;
  }

  /** The library calls this for the text of a scrape. */
  async getForPromString(): Promise<object> {
    const { name, help, type, buckets = [] } = this.#metric;
    const values = this.#read().flatMap(({ labels: sharedLabels, counts, sum }): Exposed[] => {
      let value = 0;
      const bounds = [...buckets, "+Inf"] as const;
      const inBuckets = bounds.map((le, at): Exposed => {
        value += counts[at] ?? 0;
        return { metricName: `${name}_bucket`, labels: { le }, sharedLabels, value };
      });
      const rest = { labels: {}, sharedLabels };
      return [
        ...inBuckets,
        { metricName: `${name}_sum`, ...rest, value: sum },
        { metricName: `${name}_count`, ...rest, value },
      ];
    });
    return { name, help, type, aggregator: "sum", values };
  }
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
