/** Declares metrics: each one for the library, and in the list from which docs/internals/metrics.md is written. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

import type { LabelValues } from "./labels.ts";

/** A metric with the possible values of its labels. */
export interface Metric {
  readonly type: "counter" | "gauge" | "histogram";
  readonly name: string;
  readonly help: string;
  readonly labels: Readonly<Record<string, LabelValues>>;
  /** The upper bounds of a histogram's buckets, in its unit. */
  readonly buckets?: readonly number[];
}

export type Catalogue = readonly { readonly title: string; readonly metrics: readonly Metric[] }[];

/** Reads a metric from its sources at a scrape. Without sources there are no series. */
export type Read<S> = <T>(pick: (sources: S) => readonly T[]) => readonly T[];

type Labels<L extends string> = Readonly<Record<L, LabelValues>>;
/** The label values and the value of one series. */
type Sample<L extends string> = readonly [Readonly<Record<L, string>>, number];

export interface Instruments {
  readonly registry: Registry;
  readonly catalogue: Catalogue;
  /** The metrics that are declared from now on have this title. */
  readonly begin: (title: string) => void;
  readonly counter: <L extends string>(name: string, help: string, labels: Labels<L>) => Counter<L>;
  readonly gauge: <L extends string>(name: string, help: string, labels: Labels<L>) => Gauge<L>;
  readonly histogram: <L extends string>(
    name: string,
    help: string,
    labels: Labels<L>,
    buckets: readonly number[],
  ) => Histogram<L>;
  /** A metric that is read at every scrape. Its series are those that `read` returns. */
  readonly sampled: <L extends string>(
    type: "counter" | "gauge",
    name: string,
    help: string,
    labels: Labels<L>,
    read: () => readonly Sample<L>[],
  ) => void;
}

export function createInstruments(): Instruments {
  // The library's global registry would mix the counts of several gateways in one process.
  const registry = new Registry();
  const catalogue: { title: string; metrics: Metric[] }[] = [];

  function declare<L extends string>(metric: Metric & { readonly labels: Labels<L> }) {
    catalogue.at(-1)?.metrics.push(metric);
    const { name, help, labels } = metric;
    const isLabel = (key: string): key is L => key in labels;
    return { name, help, labelNames: Object.keys(labels).filter(isLabel), registers: [registry] };
  }

  return {
    registry,
    catalogue,
    begin: (title) => void catalogue.push({ title, metrics: [] }),
    counter: (name, help, labels) => new Counter(declare({ type: "counter", name, help, labels })),
    gauge: (name, help, labels) => new Gauge(declare({ type: "gauge", name, help, labels })),
    histogram(name, help, labels, buckets) {
      const settings = declare({ type: "histogram", name, help, labels, buckets });
      return new Histogram({ ...settings, buckets: [...buckets] });
    },
    sampled(type, name, help, labels, read) {
      const settings = declare({ type, name, help, labels });
      if (type === "counter") {
        const counter = new Counter({ ...settings, collect });
        function collect(): void {
          counter.reset();
          for (const [values, value] of read()) counter.inc(values, value);
        }
        return;
      }
      const gauge = new Gauge({ ...settings, collect: set });
      function set(): void {
        // Removes series that no longer exist, such as a window of earlier settings.
        gauge.reset();
        for (const [values, value] of read()) gauge.set(values, value);
      }
    },
  };
}
