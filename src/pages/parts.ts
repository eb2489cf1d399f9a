/** The dependencies of this stage, and the parts that it shares. */
import type { Resource } from "../interface/resources.ts";
import type { Clock } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import type { Answer, Observer, Question } from "../types.ts";
import type { Derive } from "./derive/derive.ts";
import type { DeriveOptions } from "./derive/parts.ts";
import type { Cutter, CutterOptions } from "./cutter.ts";
import type { Folding } from "./folding.ts";
import type { Latency } from "./latency.ts";
import type { LimitMeaning } from "./limit-meaning.ts";
import type { Verify, VerifyOptions } from "./verify.ts";

/** The settings of this stage; see `pages` in config/default.yaml. */
interface PagesSettings {
  readonly fold: "on" | "off";
  /** The size of a block. */
  readonly block: number;
  /** The part of the cut pages that is checked, from 0 to 1. */
  readonly verify: number;
  readonly maxExtraLatencyMs: number;
}

/** Answers a question; rejects with a `Problem`. Both the cache stage and this stage are such a function. */
export type Ask = (question: Question) => Promise<Answer>;

/** Answers a question if memory has the answer and it may be served; `undefined`: call `Ask`. */
export type AskAtOnce = (question: Question) => Answer | undefined;

export interface PagesOptions extends CutterOptions, Pick<VerifyOptions, "peek" | "refresh"> {
  /** The next stage: the cache. */
  readonly ask: Ask;
  /** The next stage, from memory only. */
  readonly askAtOnce: AskAtOnce;
  /** The part of the budget that is left for a resource, from 0 to 1. */
  readonly budgetLeft: (resource: Resource) => number;
  readonly settings: () => PagesSettings;
  readonly derive: Pick<DeriveOptions, "settings" | "learned" | "isPurged">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly random: Pick<Random, "fraction">;
  readonly observer: Pick<Observer, "info" | "warn" | "error"> &
    VerifyOptions["observer"] &
    DeriveOptions["observer"];
}

export interface Parts extends Omit<PagesOptions, "derive"> {
  readonly cutter: Cutter;
  readonly derive: Derive;
  readonly folding: Folding;
  readonly latency: Latency;
  readonly meaning: LimitMeaning;
  readonly verify: Verify;
}
