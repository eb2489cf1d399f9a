import { Counter, Gauge, type Registry } from "prom-client";

/** A gauge without labels that is read at the moment of a scrape. */
export function sampledGauge(registry: Registry, name: string, help: string, read: () => number): void {
  sampledByLabel(registry, { type: "gauge", name, help, label: [], read: () => [[{}, read()]] });
}

interface Sampled {
  readonly type: "gauge" | "counter";
  readonly name: string;
  readonly help: string;
  readonly label: readonly string[];
  /** Label values, and the value. */
  readonly read: () => readonly (readonly [Record<string, string>, number])[];
}

/** A metric that is read at the moment of a scrape, one series per label value. */
export function sampledByLabel(registry: Registry, { type, name, help, label, read }: Sampled): void {
  const common = { name, help, labelNames: [...label], registers: [] };
  if (type === "gauge") {
    const collect = function (this: Gauge): void {
      // What is no longer there, a window of earlier settings say, is no longer shown.
      this.reset();
      for (const [labels, value] of read()) this.set(labels, value);
    };
    registry.registerMetric(new Gauge({ ...common, collect }));
    return;
  }
  const collect = function (this: Counter): void {
    this.reset();
    for (const [labels, value] of read()) this.inc(labels, value);
  };
  registry.registerMetric(new Counter({ ...common, collect }));
}
