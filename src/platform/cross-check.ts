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
    ...redisConflicts(settings),
    ...repeatedApps(settings),
    ...shareConflict(settings),
    ...ledgerConflict(settings),
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

/** Replicas that cannot reach Redis know nothing of each other: their shares together must fit. */
function shareConflict({ budget }: ReadableSettings): Conflict[] {
  const { degradedShare: share, replicas } = budget ?? {};
  if (share === undefined || share === null || replicas === undefined || share * replicas <= 1) return [];
  return [
    {
      paths: [
        ["budget", "degradedShare"],
        ["budget", "replicas"],
      ],
      explanation: `${replicas} times ${share} is more than the whole budget; expected at most ${1 / replicas}`,
    },
  ];
}

/** What a window counts must still be known after a restart. */
function ledgerConflict({ budget, ledger }: ReadableSettings): Conflict[] {
  const { retention } = ledger ?? {};
  const longestMs = Math.max(
    ...[...(budget?.limit ?? []), ...(budget?.images ?? [])].map((w) => w.windowMs),
    0,
  );
  if (retention === undefined || retention >= longestMs) return [];
  return [
    {
      paths: [["ledger", "retention"]],
      explanation: `is shorter than the longest span of the budget; expected at least ${formatDuration(longestMs)}`,
    },
  ];
}
