/**
 * The labels of the metrics with their possible values: a closed set, or names from the settings. Of what callers send, only app ids
 * become label values: at most `metrics.apps` of them.
 */
import { PROBLEM_CODES } from "../errors.ts";
import { ORIGINS, RESOURCES } from "../interface/resources.ts";
import * as events from "./events.ts";

export type Label<N extends string = string> = ReturnType<typeof label<N>>;

/** @param meaning for docs/internals/metrics.md: what the values mean, and which values are not in `values` */
function label<const N extends string>(name: N, values: readonly string[], meaning = "") {
  return { name, values, meaning };
}

const CIRCUITS = ORIGINS.flatMap((origin) =>
  events.scopesOf(origin).map((scope) => events.circuitLabel(origin, scope)),
);
const SAVING_MEANING =
  "`collapsed`: the request joined another request's call; `folded`: cut from a stored block; " +
  "`past_end`: a stored block has fewer records; `refused`: the request had a mistake";
const REASON_MEANING =
  "`budget`: the whole budget is spent; `share`, `per-day`: the app's own share is spent; " +
  "`cool-off`: the API needs a pause; `deadline`: the deadline passed in the queue";
const WINDOW_MEANING = "as in the settings, e.g. `1m`; windows for thumbnails as `images/1m`";
const CHECK_MEANING =
  "`differed`: also after both were fetched again; `unknown`: the check could not be made";
const CHANGE_MEANING = "`not-modified`: the API answered 304; `unchanged`: the new answer means the same";
const END_MEANING = "`refused`: the budget refused the call; `skipped`: another refresh was in progress";

export const LABELS = {
  app: label("app", [events.OTHER_APP], "the id of an app, of at most `metrics.apps`; `other` for the rest"),
  listedApp: label("app", [], "the id of an app in the settings, of at most `metrics.apps`"),
  problem: label("problem", PROBLEM_CODES, "as in [problems.md](../problems.md)"),
  resource: label("resource", RESOURCES),
  /** Of requests that may name none. */
  asked: label("resource", [...RESOURCES, "none"], "`none`: refused before its path was known"),
  outcome: label("outcome", events.OUTCOMES, "how a request ended"),
  status: label("status", [], "HTTP status; 499 if the caller hung up"),
  ended: label("status", events.UPSTREAM_FAULTS, "HTTP status, or the kind of failure"),
  cause: label("cause", events.CAUSES, "why the call was made"),
  tier: label("tier", events.TIERS, "where answers are stored"),
  store: label("store", events.TIERS),
  operation: label("operation", events.STORE_OPERATIONS),
  window: label("window", [], WINDOW_MEANING),
  appWindow: label("window", [], "as in the settings, e.g. `1m`; `per-day` for the app's perDay"),
  priority: label("priority", events.PRIORITIES),
  reason: label("reason", events.REFUSAL_REASONS, REASON_MEANING),
  circuit: label("circuit", CIRCUITS, "an address of the upstream, and one of its resources or `all`"),
  saving: label("cause", events.SAVINGS, SAVING_MEANING),
  check: label("result", events.PAGE_CHECKS, CHECK_MEANING),
  change: label("change", events.CHANGES, CHANGE_MEANING),
  refreshEnd: label("result", events.REFRESH_ENDS, END_MEANING),
  reload: label("result", events.RELOAD_RESULTS, "`invalid`, `restart-needed`: nothing was applied"),
  version: label("version", [], "as in package.json"),
  server: label("server", ["callers", "admin"], "whose port it is"),
  node: label("node", [], "the version of Node"),
};
