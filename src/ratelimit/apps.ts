/**
 * The apps that call: those listed in the settings, and unlisted ones that callers name.
 *
 * Every id that callers send gets its own share and its own queue. Callers can invent ids, so this registry limits what
 * an id can cost:
 *
 * - At most `maxUnlisted` unlisted ids are known at a time. A new id replaces the least recently seen one. If that was
 *   seen within `IN_USE_MS`, the new id counts as `other`.
 * - An id has at most 64 characters, and only characters that are safe in a log line, a header and a label.
 * - At most `labels` apps have a metric label of their own: the listed apps with the largest weights, then the first
 *   unlisted ids. An id keeps its label.
 */
import { memoize } from "../process/memoize.ts";

import { OTHER_APP } from "../telemetry/events.ts";

/** An app as the settings list it. */
export interface ListedApp {
  readonly id: string;
  readonly weight: number;
  /** Most calls in any 24 hours. */
  readonly perDay: number | null;
}

export interface AppsConfig {
  readonly listed: readonly ListedApp[];
  /** Weight of an app that is not listed (`apps.default`). */
  readonly defaultWeight: number;
  readonly maxUnlisted: number;
  /** The part of a long window that all unlisted ids together may use, if apps are listed. */
  readonly unlistedShare: number;
  /** The most apps that the metrics name (`metrics.apps`). */
  readonly labels: number;
}

/** How an app identified itself when this process first saw it. */
interface AppIdentity {
  readonly app: string;
  readonly isListed: boolean;
  /** `nothing`: the request had no name, or there were too many ids. */
  readonly identifiedBy: "app-id" | "user-agent" | "nothing";
  /** The whole `User-Agent`, if the request had one. */
  readonly userAgent: string | null;
  /** Epoch milliseconds. */
  readonly firstSeenAt: number;
}

export interface Apps {
  /**
   * The id of the app that sends a request. Also marks the app as seen.
   * @param appId value of the app id header
   */
  readonly identify: (
    appId: string | readonly string[] | undefined,
    userAgent: string | undefined,
    now: number,
  ) => string;
  readonly isListed: (app: string) => boolean;
  /** The ids of the listed apps. */
  readonly listed: () => readonly string[];
  /** Whether the id has its own share now. */
  readonly isKnown: (app: string) => boolean;
  /** The apps that were seen, in the order in which they were first seen. */
  readonly identities: () => readonly AppIdentity[];
  readonly weightOf: (app: string) => number;
  readonly unlistedShare: () => number;
  /** Most calls of the app in any 24 hours. */
  readonly perDayOf: (app: string) => number | null;
  /** The value of the metric label `app`. */
  readonly labelOf: (app: string) => string;
  readonly configure: (config: AppsConfig) => void;
}

const BROWSER_APP = "browser";

/** A new id never replaces an id that was seen this recently. */
const IN_USE_MS = 5 * 60_000;
const LONGEST_ID = 64;
const LONGEST_USER_AGENT = 200;
/** If there are more, the oldest identities are forgotten. */
const MOST_IDENTITIES = 2_000;

/** Every current browser begins its User-Agent with one of these products. */
const BROWSER_PRODUCTS: ReadonlySet<string> = new Set(["mozilla", "opera"]);

export function createApps(initial: AppsConfig): Apps {
  let config = initial;
  let listed = byId(config);
  let listedIds = [...listed.keys()];
  /** When each unlisted id was last seen, least recently seen first. */
  const seenAt = new Map<string, number>();
  const labelled = new Set<string>();
  label();
  const identities = new Map<string, Omit<AppIdentity, "isListed">>();

  function admit(id: string, now: number): string {
    if (id === OTHER_APP || listed.has(id)) return id;
    if (!seenAt.delete(id) && seenAt.size >= config.maxUnlisted) {
      const [oldest] = seenAt;
      if (oldest === undefined || now - oldest[1] < IN_USE_MS) return OTHER_APP;
      seenAt.delete(oldest[0]);
    }
    seenAt.set(id, now);
    if (labelled.size < config.labels) labelled.add(id);
    return id;
  }

  function label(): void {
    const before = [...labelled].filter((id) => !listed.has(id));
    const largest = config.listed.toSorted((a, b) => b.weight - a.weight).map(({ id }) => id);
    labelled.clear();
    for (const id of [...largest, ...before].slice(0, config.labels)) labelled.add(id);
  }

  function introduce(
    app: string,
    hasAppId: boolean,
    userAgent: string | undefined,
    firstSeenAt: number,
  ): void {
    const isNamed = app !== OTHER_APP;
    const identifiedBy = !isNamed ? "nothing" : hasAppId ? "app-id" : "user-agent";
    const shown = userAgent?.slice(0, LONGEST_USER_AGENT) || null;
    identities.set(app, { app, identifiedBy, userAgent: shown, firstSeenAt });
    if (identities.size > MOST_IDENTITIES) identities.delete(identities.keys().next().value ?? "");
  }

  return {
    identify(appId, userAgent, now) {
      const app = admit(namedIn(appId, userAgent), now);
      if (!identities.has(app)) introduce(app, isName(appId), userAgent, now);
      return app;
    },
    identities: () => [...identities.values()].map((one) => ({ ...one, isListed: listed.has(one.app) })),
    isListed: (app) => listed.has(app),
    listed: () => listedIds,
    isKnown: (app) => listed.has(app) || seenAt.has(app) || app === OTHER_APP,
    weightOf: (app) => listed.get(app)?.weight ?? config.defaultWeight,
    unlistedShare: () => config.unlistedShare,
    perDayOf: (app) => listed.get(app)?.perDay ?? null,
    labelOf: (app) => (labelled.has(app) ? app : OTHER_APP),
    configure(next) {
      config = next;
      listed = byId(next);
      listedIds = [...listed.keys()];
      label();
    },
  };
}

function byId({ listed }: AppsConfig): ReadonlyMap<string, ListedApp> {
  return new Map(listed.map((app) => [app.id, app]));
}

function namedIn(appId: string | readonly string[] | undefined, userAgent: string | undefined): string {
  return isName(appId) ? sanitised(appId.trim()) : productIn(userAgent ?? "");
}

function isName(appId: string | readonly string[] | undefined): appId is string {
  return typeof appId === "string" && appId.trim() !== "";
}

const productIn = memoize((userAgent) => {
  const product = /^\s*([^\s/()]+)/.exec(userAgent)?.[1] ?? "";
  return BROWSER_PRODUCTS.has(product.toLowerCase()) ? BROWSER_APP : sanitised(product) || OTHER_APP;
});

/** Only characters that the settings allow in app ids. All others become `-`. */
const sanitised = memoize((id) => id.slice(0, LONGEST_ID).replaceAll(/[^\w.-]/g, "-"));
