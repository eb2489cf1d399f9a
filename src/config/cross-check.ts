/**
 * Checks settings against one another.
 */
import type { Settings } from "./schema.ts";
import type { Conflict } from "./secrets.ts";
import type { SettingSources } from "./sources.ts";
import { formatDuration } from "./units.ts";

type ReadableSettings = Partial<Settings>;

/** @returns the conflicts between settings. Settings that could not be read are not checked. */
export function crossCheck(settings: ReadableSettings, sources: SettingSources): Conflict[] {
  return [
    ...portConflict(settings),
    ...redisConflicts(settings),
    ...repeatedApps(settings, sources),
    ...retentionConflicts(settings),
  ];
}

function portConflict({ server, admin }: ReadableSettings): Conflict[] {
  const port = server?.port;
  if (port === undefined || port === 0 || port !== admin?.port) return [];
  const explanation = `both ports are ${port}; expected two different ones, or 0 for any free port`;
  return conflict(["admin.port", "server.port"], explanation);
}

function redisConflicts({ redis }: ReadableSettings): Conflict[] {
  if (redis === undefined) return [];
  const { mode, url, nodes, sentinel } = redis;
  const isElsewhere = mode !== "single" || nodes.length > 0 || sentinel.nodes.length > 0;
  if (url === null && isElsewhere) {
    const explanation =
      "expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password";
    return conflict(["redis.url"], explanation);
  }
  if (mode === "sentinel" && (sentinel.master === null || sentinel.nodes.length === 0)) {
    const explanation =
      "expected the master's name and at least one Sentinel, because redis.mode is sentinel";
    return conflict(["redis.sentinel"], explanation);
  }
  return [];
}

function repeatedApps({ apps }: ReadableSettings, sources: SettingSources): Conflict[] {
  const ids = (apps?.listed ?? []).map((app) => app.id);
  return ids.flatMap((id, index): Conflict[] => {
    const first = ids.indexOf(id);
    if (first === index) return [];
    const other = sources.pathOf(["apps", "listed", first]);
    const explanation = `${JSON.stringify(id)} is the id of ${other} already; expected each id once`;
    return [{ paths: [["apps", "listed", index, "id"]], explanation }];
  });
}

/** The ledger must keep each request for as long as a window counts it. */
function retentionConflicts({ budget, ledger }: ReadableSettings): Conflict[] {
  if (ledger === undefined) return [];
  const { retentionMs } = ledger;
  return (["limit", "images"] as const).flatMap((name): Conflict[] => {
    const longestMs = Math.max(0, ...(budget?.[name] ?? []).map(({ windowMs }) => windowMs));
    if (retentionMs >= longestMs) return [];
    const explanation =
      `a window is ${formatDuration(longestMs)} long, but the ledger keeps requests for ` +
      `${formatDuration(retentionMs)}; expected windows of at most that`;
    return conflict([`budget.${name}`], explanation);
  });
}

function conflict(names: readonly string[], explanation: string): Conflict[] {
  return [{ paths: names.map((name) => name.split(".")), explanation }];
}
