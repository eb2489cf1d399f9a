import * as z from "zod";

import * as shape from "./shapes.ts";
import { setting, shaped } from "./setting.ts";

const app = z.strictObject({
  /** The app's id, as its requests send it. */
  id: setting(shape.appId, { required: true }),
  /** The size of the app's share of the budget, relative to the weights of the others. */
  weight: setting(z.number().gt(0).max(1_000).default(1), { expected: "a number above 0, at most 1000" }),
  /** The most calls that the app may cause in any 24 hours, thumbnails excepted. Without it, the app has no such limit. */
  perDay: setting(z.int().min(1).max(1_000_000_000).nullable().default(null), {
    expected: "a whole number above zero",
  }),
  /** interactive requests go first. background requests leave a tenth of the budget to them. */
  priority: setting(z.enum(["interactive", "background"]).default("interactive"), {
    expected: "one of interactive, background",
  }),
  /** Whether the app's requests may ask for a newer answer although the cached one is fresh. That spends budget. */
  mayForceRefresh: setting(z.boolean().default(false), { expected: "true or false" }),
  /**
   * The path of a file that holds only the app's token. With it, the id counts only in requests that send the token as
   * Authorization: Bearer; others count as the app other. The gateway notices when the file's content changes.
   */
  tokenFile: setting(z.string().min(1).nullable().default(null), { expected: "the path of a file" }),
});

const APPS =
  "apps, each with an id of 1 to 64 letters, digits, '.', '_' or '-', and optionally with weight " +
  "(above 0, at most 1000; 1), perDay (calls in any day; unlimited), priority (interactive or background; " +
  "interactive), mayForceRefresh (true or false; false) and tokenFile (the path of a file)";

/** A plain list of apps in place of this section means `listed`. */
export const apps = shaped(
  z.strictObject({
    /** The part of each window longer than an hour that all unlisted app ids together may use, if apps are listed. */
    unlistedShare: setting(shape.fraction(0, 1), { default: 0.5, reloadable: true }),
    /** The apps with settings of their own. You can also write the list directly below apps. */
    listed: setting(shape.listOf(app, APPS), { reloadable: true }),
  }),
  "a list of apps, each as `- id: name`",
);

/** How many calls the gateway may send to the API. */
export const budget = z.strictObject({
  /** The most calls to the API in any window of this length, as calls/window. Separate several with commas. */
  limit: setting(shape.windows, { default: "60/1m,10000/1d", env: "BUDGET", reloadable: true }),
  /** The most calls that a replica has in flight at once, to each of the API's two addresses. */
  concurrency: setting(shape.integer(1, 1_000), { default: 4, env: "BUDGET_CONCURRENCY", reloadable: true }),
  /**
   * The shortest time between two calls of a replica to an address. It is at most half of the average time between two calls
   * that the shortest window allows.
   */
  spacingMs: setting(shape.duration({ minMs: 0, maxMs: 10_000 }), {
    default: "25ms",
    env: "BUDGET_SPACING",
    reloadable: true,
  }),
  /** The longest time from a request's arrival to an answer or a refusal. */
  maxWaitMs: setting(shape.duration(), { default: "10s", env: "BUDGET_MAX_WAIT", reloadable: true }),
  /** The most calls for thumbnails in any window of this length. */
  images: setting(shape.windows, { default: "300/1m", reloadable: true }),
  /** What happens when the budget is spent. enforce: requests are refused. observe: they are only counted. */
  mode: setting(shape.oneOf("enforce", "observe"), { default: "enforce", reloadable: true }),
  /** The most replicas that run at once. */
  replicas: setting(shape.integer(1, 1_000), { default: 1, env: "REPLICAS" }),
  /** The part of each window that the own purses of all replicas hold together. */
  degradedReserve: setting(shape.fraction(0, 0.5), { default: 0.1 }),
  /**
   * How long a replica spends its own purse without Redis. Then it sends no more calls. A replica that dies keeps its purse
   * for this long.
   */
  degradedForMs: setting(shape.duration({ maxMs: shape.DAY_MS }), { default: "30m" }),
});
