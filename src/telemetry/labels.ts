/**
 * The labels of the metrics with their possible values: a closed set, or names from the settings. Nothing that a caller
 * sends can become a label value.
 */
import {
  CAUSES,
  CHANGES,
  PAGE_CHECKS,
  OUTCOMES,
  OTHER_APP,
  PRIORITIES,
  REFRESH_ENDS,
  REFUSAL_REASONS,
  STORE_OPERATIONS,
  TIERS,
  UPSTREAM_FAULTS,
} from "./events.ts";
import { PROBLEM_CODES } from "../errors.ts";
import { originOf, RESOURCES, ORIGINS } from "../interface/resources.ts";

export interface Label<N extends string = string> {
  readonly name: N;
  /** For docs/internals/metrics.md: what the values mean, and which values are not in `values`. */
  readonly meaning?: string;
  readonly values?: readonly string[];
  /** The form of values that are not in `values`. */
  readonly pattern?: RegExp;
}

function label<const N extends string>(name: N, values: Omit<Label, "name">): Label<N> {
  return { name, ...values };
}

/** Why a request needed no upstream call of its own. */
export const SAVINGS = ["hit", "collapsed", "folded", "past_end", "refused"] as const;
export type Saving = (typeof SAVINGS)[number];

/** The results of a reload of the settings. */
export const RELOAD_RESULTS = ["applied", "invalid", "restart-needed"] as const;
export type ReloadResult = (typeof RELOAD_RESULTS)[number];

const HTTP_STATUS = /^[1-9]\d\d$/;

export const APP = label("app", {
  meaning: "the id of an app, of at most `metrics.apps`; `other` for the rest",
  values: [OTHER_APP],
});
export const LISTED_APP = label("app", {
  meaning: "the id of an app in the settings, of at most `metrics.apps`",
  pattern: /^[\w.-]+$/,
});
export const PROBLEM = label("problem", {
  meaning: "as in [problems.md](../problems.md)",
  values: PROBLEM_CODES,
});
export const RESOURCE = label("resource", { values: RESOURCES });
export const ADMITTED_RESOURCE = label("resource", {
  meaning: "`none` if a request was refused before its path was known",
  values: [...RESOURCES, "none"],
});
export const OUTCOME = label("outcome", {
  meaning: "how a request ended",
  values: OUTCOMES,
});
export const STATUS = label("status", {
  meaning: "HTTP status; 499 if the caller hung up",
  pattern: HTTP_STATUS,
});
export const CALL_STATUS = label("status", {
  meaning: "HTTP status, or the kind of failure",
  values: UPSTREAM_FAULTS,
  pattern: HTTP_STATUS,
});
export const CAUSE = label("cause", { meaning: "why the call was made", values: CAUSES });
export const TIER = label("tier", { meaning: "where answers are stored", values: TIERS });
export const STORE = label("store", { values: TIERS });
export const OPERATION = label("operation", { values: STORE_OPERATIONS });
export const WINDOW = label("window", {
  meaning: "as in the settings, e.g. `1m`; windows for thumbnails as `images/1m`",
  pattern: /^(images\/)?\d+(ms|s|m|h|d)$/,
});
export const APP_WINDOW = label("window", {
  meaning: "as in the settings, e.g. `1m`; or `per-day`",
  pattern: /^(\d+(ms|s|m|h|d)|per-day)$/,
});
export const PRIORITY = label("priority", { values: PRIORITIES });
export const REASON = label("reason", {
  meaning:
    "`budget`: the whole budget is spent; `share`, `per-day`: the app's own share is spent; `cool-off`: the API needs a pause; `deadline`: the deadline passed in the queue",
  values: REFUSAL_REASONS,
});
export const CIRCUIT = label("circuit", {
  meaning: "an address of the upstream, and one of its resources or `all`",
  values: ORIGINS.flatMap((origin) =>
    ["all", ...RESOURCES.filter((resource) => originOf(resource) === origin)].map(
      (scope) => `${origin}/${scope}`,
    ),
  ),
});
export const SAVING = label("cause", {
  meaning:
    "`collapsed`: the request joined another request's call; `folded`: cut from a stored block; `past_end`: a stored block has fewer records; `refused`: the request had a mistake",
  values: SAVINGS,
});
export const PAGE_CHECK = label("result", {
  meaning: "`differed`: also after both were fetched again; `unknown`: the check could not be made",
  values: PAGE_CHECKS,
});
export const CHANGE = label("change", {
  meaning: "`not-modified`: the API answered 304; `unchanged`: the new answer means the same",
  values: CHANGES,
});
export const REFRESH_END = label("result", {
  meaning: "`refused`: the budget refused the call; `skipped`: another refresh was in progress",
  values: REFRESH_ENDS,
});
export const RELOAD_RESULT = label("result", {
  meaning: "`invalid`, `restart-needed`: nothing was applied",
  values: RELOAD_RESULTS,
});
export const VERSION = label("version", { meaning: "as in package.json", pattern: /^\d+\.\d+\.\d+/ });
export const SERVER = label("server", { meaning: "whose port it is", values: ["callers", "admin"] });
export const NODE = label("node", { meaning: "the version of Node", pattern: /^v\d+\.\d+\.\d+/ });
