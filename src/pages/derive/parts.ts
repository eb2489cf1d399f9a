/** The dependencies of this folder, and the parts that it shares. */
import type { FoldedResource } from "../block-index.ts";
import type { Entry, LearnedStore, Observer, PageCheck } from "../../types.ts";
import type { Cutter } from "../cutter.ts";
import type { PagesOptions } from "../parts.ts";
import type { Sources } from "./sources.ts";
import type { Suspicions } from "./suspicions.ts";
import type { Trust } from "./trust.ts";

/** See `derive` in config/default.yaml. */
interface DeriveSettings {
  readonly mode: "off" | "shadow" | "on";
  readonly minSamples: number;
  /** The part of the computed answers that is compared, from 0 to 1. */
  readonly sample: number;
}

export interface DeriveOptions extends Pick<
  PagesOptions,
  "memory" | "peek" | "askAtOnce" | "refresh" | "budgetLeft" | "random" | "clock"
> {
  readonly cutter: Cutter;
  readonly settings: () => DeriveSettings;
  readonly learned: LearnedStore | undefined;
  /** Whether a purge of this key applies to an entry. */
  readonly isPurged: (key: string, entry: Entry) => boolean;
  /** The size of the largest blocks. */
  readonly largest: () => number;
  readonly observer: Pick<Observer, "info" | "error"> & {
    /** An answer of the upstream was compared with the answer that would have been computed. */
    readonly derivedChecked: (resource: FoldedResource, result: PageCheck) => void;
  };
}

export interface DeriveParts extends DeriveOptions {
  readonly sources: Sources;
  readonly suspicions: Suspicions;
  readonly trust: Trust;
}
