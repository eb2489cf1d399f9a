import type { Settings } from "./config-schema.ts";
import type { SettingPath } from "./setting-path.ts";
import { formatDuration } from "./units.ts";

/** Settings of which any may have been unreadable. */
export type ReadableSettings = {
  [Section in keyof Settings]?: Settings[Section] extends readonly unknown[]
    ? Settings[Section]
    : Settings[Section] extends object
      ? Partial<Settings[Section]>
      : Settings[Section];
};

/** Settings that are right by themselves and wrong together. */
export interface Conflict {
  /** The settings concerned; the first is the one to look at first. */
  readonly paths: readonly [SettingPath, ...SettingPath[]];
  readonly explanation: string;
}

/** Checks settings against one another; those that could not be read are left out. */
export function crossCheck(settings: ReadableSettings): Conflict[] {
  return [
    ...portConflict(settings),
    ...timeoutConflict(settings),
    ...redisConflicts(settings),
    ...repeatedApps(settings),
    ...shareConflict(settings),
    ...retentionConflicts(settings),
    ...lifetimeConflicts(settings),
  ];
}

function portConflict({ server, admin }: ReadableSettings): Conflict[] {
  const port = server?.port;
  if (port === undefined || port === 0 || port !== admin?.port) return [];
  return [
    {
      paths: [
        ["admin", "port"],
        ["server", "port"],
      ],
      explanation: `both ports are ${port}; expected two different ones, or 0 for any free port`,
    },
  ];
}

/** The headers are a part of the request: Node refuses to wait longer for the part than for the whole. */
function timeoutConflict({ server }: ReadableSettings): Conflict[] {
  const { headersTimeout, requestTimeout } = server ?? {};
  if (headersTimeout === undefined || requestTimeout === undefined) return [];
  if (headersTimeout <= requestTimeout) return [];
  return [
    {
      paths: [
        ["server", "headersTimeout"],
        ["server", "requestTimeout"],
      ],
      explanation:
        `${formatDuration(headersTimeout)} for the headers is longer than ${formatDuration(requestTimeout)} for the ` +
        "whole request; expected at most as long",
    },
  ];
}

/** Each way of running Redis, and what it needs. */
function redisConflicts({ redis }: ReadableSettings): Conflict[] {
  if (redis?.mode === undefined) return [];
  const { mode, url, nodes = [], sentinel } = redis;
  const conflict = (explanation: string, ...path: string[]): Conflict[] => [
    { paths: [["redis", ...path]], explanation },
  ];
  const isElsewhere = mode !== "single" || nodes.length > 0 || (sentinel?.nodes ?? []).length > 0;
  if (url === null && isElsewhere) {
    return conflict(
      `expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password`,
      "url",
    );
  }
  if (mode === "sentinel" && (sentinel?.master === null || sentinel?.nodes?.length === 0)) {
    return conflict(
      "expected the master's name and at least one Sentinel, because redis.mode is sentinel",
      "sentinel",
    );
  }
  return [];
}

function repeatedApps({ apps }: ReadableSettings): Conflict[] {
  const ids = (apps ?? []).map((app) => app?.id);
  return ids.flatMap((id, index): Conflict[] => {
    const first = ids.indexOf(id);
    if (id === undefined || first === index) return [];
    const explanation = `${JSON.stringify(id)} is the id of apps[${first}] already; expected each id once`;
    return [{ paths: [["apps", index, "id"]], explanation }];
  });
}

/** What 0.1 times 10 may differ from 1 by, in floating point. */
const ROUNDING = 1e-9;

/** Replicas cut off from Redis do not see one another's sends: only shares that make up one whole are safe. */
function shareConflict({ budget }: ReadableSettings): Conflict[] {
  const { degradedShare, replicas } = budget ?? {};
  if (typeof degradedShare !== "number" || replicas === undefined) return [];
  if (degradedShare * replicas <= 1 + ROUNDING) return [];
  return [
    {
      paths: [
        ["budget", "degradedShare"],
        ["budget", "replicas"],
      ],
      explanation:
        `${degradedShare} of each window for each of ${replicas} replicas is more than there is, and without Redis ` +
        "none sees what the others send; expected at most 1 in all, or no degradedShare, for equal parts",
    },
  ];
}

/** A send that the ledger has dropped cannot be counted in a window that it is still in. */
function retentionConflicts({ budget, ledger }: ReadableSettings): Conflict[] {
  const retentionMs = ledger?.retention;
  if (retentionMs === undefined) return [];
  return (["limit", "images"] as const).flatMap((name): Conflict[] => {
    const longestMs = Math.max(0, ...(budget?.[name] ?? []).map(({ windowMs }) => windowMs));
    if (retentionMs >= longestMs) return [];
    const explanation =
      `what is sent is forgotten after ${formatDuration(retentionMs)}, within the window of ` +
      `${formatDuration(longestMs)} it counts in; expected a retention of at least that window`;
    return [
      {
        paths: [
          ["ledger", "retention"],
          ["budget", name],
        ],
        explanation,
      },
    ];
  });
}

/** Between its bounds there must be a lifetime to choose. */
function lifetimeConflicts({ cache }: ReadableSettings): Conflict[] {
  const { ttlMin, ttlMax } = cache ?? {};
  if (ttlMin === undefined || ttlMax === undefined) return [];
  return (["listings", "sold", "areas", "records", "images"] as const)
    .filter((kind) => ttlMin[kind] > ttlMax[kind])
    .map((kind) => ({
      paths: [
        ["cache", "ttlMin", kind],
        ["cache", "ttlMax", kind],
      ],
      explanation: `from ${formatDuration(ttlMin[kind])} to ${formatDuration(ttlMax[kind])} there is nothing; expected ttlMin to be the shorter`,
    }));
}
