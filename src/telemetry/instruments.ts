/** Declares metrics: each one for the library, and in the list from which docs/internals/metrics.md is written. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

import type { Label } from "./labels.ts";

export interface Metric {
  readonly type: "counter" | "gauge" | "histogram";
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
}

export type Catalogue = readonly { readonly title: string; readonly metrics: readonly Metric[] }[];

/** The value of a metric without labels, or the label values and the value of each series. */
type Samples<L extends string> = number | readonly (readonly [Readonly<Record<L, string>>, number])[];

/** Declares the metrics of one gateway. */
export class Instruments<Sources> {
  // The library's global registry would mix the counts of several gateways in one process.
  readonly registry = new Registry();
  readonly #catalogue: { readonly title: string; readonly metrics: Metric[] }[] = [];
  readonly #sources: () => Sources | undefined;

  /** @param sources returns the sources of sampled metrics; while it returns `undefined`, those metrics have no series */
  constructor(sources: () => Sources | undefined) {
    this.#sources = sources;
  }

  get catalogue(): Catalogue {
    return this.#catalogue;
  }

  /** Starts a section with this title. Metrics that are declared later belong to it. */
  begin(title: string): void {
    this.#catalogue.push({ title, metrics: [] });
  }

  counter<L extends string>(name: string, labels: readonly Label<L>[], help: string): Counter<L> {
    return new Counter(this.#declare("counter", name, labels, help));
  }

  gauge<L extends string>(name: string, labels: readonly Label<L>[], help: string): Gauge<L> {
    return new Gauge(this.#declare("gauge", name, labels, help));
  }

  /** @param buckets their upper bounds, in the unit of the name */
  histogram<L extends string>(
    name: string,
    labels: readonly Label<L>[],
    help: string,
    buckets: number[],
  ): Histogram<L> {
    return new Histogram({ ...this.#declare("histogram", name, labels, help), buckets });
  }

  /** A metric that is read at every scrape: a counter if its name ends with `_total`, else a gauge. */
  sampled<L extends string>(
    name: string,
    labels: readonly Label<L>[],
    help: string,
    read: (sources: Sources) => Samples<L>,
  ): void {
    const type = name.endsWith("_total") ? "counter" : "gauge";
    const collect = (): void => {
      // Removes series that no longer exist, such as a window of earlier settings, and the 0 of a metric without labels.
      metric.reset();
      metric.remove({});
      const sources = this.#sources();
      const samples = sources === undefined ? [] : read(sources);
      if (typeof samples === "number") metric.inc(samples);
      else for (const [values, value] of samples) metric.inc(values, value);
    };
    const settings = { ...this.#declare(type, name, labels, help), collect };
    const metric = type === "counter" ? new Counter(settings) : new Gauge(settings);
  }

  #declare<L extends string>(type: Metric["type"], name: string, labels: readonly Label<L>[], help: string) {
    this.#catalogue.at(-1)?.metrics.push({ type, name, help, labels });
    return { name, help, labelNames: labels.map((label) => label.name), registers: [this.registry] };
  }
}
