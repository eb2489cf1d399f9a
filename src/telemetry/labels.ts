/**
 * The labels of the metrics, each with the values it can have: a closed set, or what the settings name.
 * Nothing that a caller sends can become one.
 */
import {
  CAUSES,
  CHANGES,
  ORIGINS,
  OUTCOMES,
  OTHER_APP,
  PRIORITIES,
  REFRESH_ENDS,
  REFUSAL_REASONS,
  SHADOW_EFFECTS,
  STORE_OPERATIONS,
  TIERS,
  UPSTREAM_FAULTS,
} from "../types.ts";
import { originOf, RESOURCES } from "../interface/resources.ts";

export interface LabelValues {
  /** For readers: what values there are besides, or what they mean. */
  readonly says?: string;
  readonly values?: readonly string[];
  /** What a value that is not among `values` looks like. */
  readonly pattern?: RegExp;
}

/** What may come of reading the settings again. */
export const RELOAD_RESULTS = ["applied", "invalid", "restart-needed"] as const;
export type ReloadResult = (typeof RELOAD_RESULTS)[number];

const HTTP_STATUS = /^[1-9]\d\d$/;

export const APP: LabelValues = {
  says: "the id of an app in the settings, or `other` for all others",
  values: [OTHER_APP],
};
export const RESOURCE: LabelValues = { values: RESOURCES };
export const ADMITTED_RESOURCE: LabelValues = {
  says: "`none` where a request was refused before it was known",
  values: [...RESOURCES, "none"],
};
export const OUTCOME: LabelValues = {
  says: "what became of a request ([http.md](http.md))",
  values: OUTCOMES,
};
export const STATUS: LabelValues = {
  says: "HTTP status; 499 where the caller hung up",
  pattern: HTTP_STATUS,
};
export const CALL_STATUS: LabelValues = {
  says: "HTTP status, or how the call failed without one",
  values: UPSTREAM_FAULTS,
  pattern: HTTP_STATUS,
};
export const CAUSE: LabelValues = { says: "why the API was asked", values: CAUSES };
export const TIER: LabelValues = { says: "where answers are kept", values: TIERS };
export const STORE: LabelValues = { values: TIERS };
export const OPERATION: LabelValues = { values: STORE_OPERATIONS };
export const WINDOW: LabelValues = {
  says: "as in the settings, e.g. `1m`; those of the thumbnails as `images/1m`",
  pattern: /^(images\/)?\d+(ms|s|m|h|d)$/,
};
export const PRIORITY: LabelValues = { values: PRIORITIES };
export const REASON: LabelValues = {
  says: "`budget`: everyone's is spent; `share`, `per-day`: the app's own is; `cool-off`: the API is left alone; `deadline`: it passed in the queue",
  values: REFUSAL_REASONS,
};
export const CIRCUIT: LabelValues = {
  says: "a part of the API, or `all` of an origin",
  values: ORIGINS.flatMap((origin) =>
    ["all", ...RESOURCES.filter((resource) => originOf(resource) === origin)].map(
      (scope) => `${origin}/${scope}`,
    ),
  ),
};
export const CHANGE: LabelValues = {
  says: "`not-modified`: the API said so; `unchanged`: its answer says the same as the one held",
  values: CHANGES,
};
export const REFRESH_END: LabelValues = {
  says: "`refused`: for want of budget; `skipped`: another was under way",
  values: REFRESH_ENDS,
};
export const SHADOW_EFFECT: LabelValues = {
  says: "`saved`: it would rightly not have been made; `outdated`: not made, though the answer had changed; `extra`: there would have been one before",
  values: SHADOW_EFFECTS,
};
export const RELOAD_RESULT: LabelValues = {
  says: "`invalid`, `restart-needed`: nothing was changed",
  values: RELOAD_RESULTS,
};
export const VERSION: LabelValues = { says: "as in package.json", pattern: /^\d+\.\d+\.\d+/ };
export const NODE: LabelValues = { says: "the version of Node", pattern: /^v\d+\.\d+\.\d+/ };
