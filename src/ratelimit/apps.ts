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
import type { Config } from "../config/config.ts";
import { memoize } from "../process/memoize.ts";
import { OTHER_APP, type Priority } from "../telemetry/events.ts";

export type ListedApp = Pick<Config["apps"][number], "id" | "weight" | "perDay"> & { priority?: Priority };

/** The settings of apps. */
export interface AppsConfig {
  readonly apps: readonly ListedApp[];
  readonly unlistedApps: Config["unlistedApps"];
  readonly metrics: Pick<Config["metrics"], "apps">;
}

type Header = string | readonly string[] | undefined;

const BROWSER_APP = "browser";

/** A new id never replaces an id that was seen this recently. */
const IN_USE_MS = 5 * 60_000;
const LONGEST_ID = 64;

/** Every current browser begins its User-Agent with one of these products. */
const BROWSER_PRODUCTS: ReadonlySet<string> = new Set(["mozilla", "opera"]);

export class Apps {
  #config: AppsConfig;
  #listed: ReadonlyMap<string, ListedApp> = new Map();
  /** When each unlisted id was last seen, least recently seen first. */
  readonly #seenAt = new Map<string, number>();
  #labelled = new Set<string>();

  constructor(config: AppsConfig) {
    this.#config = config;
    this.configure(config);
  }

  /**
   * The id of the app that sends a request. Also marks the app as seen.
   * @param appId value of the app id header
   */
  identify(appId: Header, userAgent: string | undefined, now: number): string {
    const id = namedIn(appId, userAgent);
    const { unlistedApps, metrics } = this.#config;
    if (id === OTHER_APP || this.#listed.has(id)) return id;
    if (!this.#seenAt.delete(id) && this.#seenAt.size >= unlistedApps.max) {
      const [oldest] = this.#seenAt;
      if (oldest === undefined || now - oldest[1] < IN_USE_MS) return OTHER_APP;
      this.#seenAt.delete(oldest[0]);
    }
    this.#seenAt.set(id, now);
    if (this.#labelled.size < metrics.apps) this.#labelled.add(id);
    return id;
  }

  readonly isListed = (app: string): boolean => this.#listed.has(app);

  /** The ids of the listed apps. */
  readonly listed = (): readonly string[] => [...this.#listed.keys()];

  /** Whether the id has its own share now. */
  readonly isKnown = (app: string): boolean =>
    this.#listed.has(app) || this.#seenAt.has(app) || app === OTHER_APP;

  readonly weightOf = (app: string): number =>
    this.#listed.get(app)?.weight ?? this.#config.unlistedApps.weight;

  readonly priorityOf = (app: string): Priority => this.#listed.get(app)?.priority ?? "interactive";

  /** The part of a long window that all unlisted ids together may use, if apps are listed. */
  readonly unlistedShare = (): number => this.#config.unlistedApps.share;

  /** Most calls of the app in any 24 hours. */
  readonly perDayOf = (app: string): number | null => this.#listed.get(app)?.perDay ?? null;

  /** The value of the metric label `app`. */
  readonly labelOf = (app: string): string => (this.#labelled.has(app) ? app : OTHER_APP);

  configure(config: AppsConfig): void {
    this.#config = config;
    this.#listed = new Map(config.apps.map((app) => [app.id, app]));
    const before = [...this.#labelled].filter((id) => !this.#listed.has(id));
    const largest = config.apps.toSorted((a, b) => b.weight - a.weight).map(({ id }) => id);
    this.#labelled = new Set([...largest, ...before].slice(0, config.metrics.apps));
  }
}

/** @returns the id of the app that a request names, as all parts of the gateway spell it */
export function namedIn(appId: Header, userAgent?: string): string {
  const id = typeof appId === "string" ? appId.trim() : "";
  return id === "" ? productIn(userAgent ?? "") : sanitised(id);
}

const productIn = memoize((userAgent) => {
  const product = /^\s*([^\s/()]+)/.exec(userAgent)?.[1] ?? "";
  return BROWSER_PRODUCTS.has(product.toLowerCase()) ? BROWSER_APP : sanitised(product) || OTHER_APP;
});

/** Only characters that the settings allow in app ids. All others become `-`. */
const sanitised = memoize((id) => id.slice(0, LONGEST_ID).replaceAll(/[^\w.-]/g, "-"));
