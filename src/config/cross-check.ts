/**
 * Checks settings against one another.
 */
import type { ReadableSettings } from "./schema.ts";
import type { SettingPath, SettingSources } from "./sources.ts";
import { formatDuration } from "./units.ts";

/** Settings that are valid separately but conflict with each other. */
export interface Conflict {
  /** The conflicting settings. The first one most likely needs the change. */
  readonly paths: readonly SettingPath[];
  readonly explanation: string;
}

/** @returns the conflicts between settings. Settings that could not be read are not checked. */
export function crossCheck(settings: ReadableSettings, sources: SettingSources): Conflict[] {
  return [
    ...portConflict(settings),
    ...timeoutConflict(settings),
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

/** Node does not accept a longer limit for the headers than for the whole request. */
function timeoutConflict({ server }: ReadableSettings): Conflict[] {
  const { headersTimeoutMs, requestTimeoutMs } = server ?? {};
  if (headersTimeoutMs === undefined || requestTimeoutMs === undefined) return [];
  if (headersTimeoutMs <= requestTimeoutMs) return [];
  const [headers, request] = [formatDuration(headersTimeoutMs), formatDuration(requestTimeoutMs)];
  const explanation = `${headers} for the headers is longer than ${request} for the whole request; expected at most as long`;
  return conflict(["server.headersTimeout", "server.requestTimeout"], explanation);
}

function redisConflicts({ redis }: ReadableSettings): Conflict[] {
  if (redis?.mode === undefined) return [];
  const { mode, url, nodes = [], sentinel } = redis;
  const isElsewhere = mode !== "single" || nodes.length > 0 || (sentinel?.nodes ?? []).length > 0;
  if (url === null && isElsewhere) {
    const explanation =
      "expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password";
    return conflict(["redis.url"], explanation);
  }
  if (mode === "sentinel" && (sentinel?.master === null || sentinel?.nodes?.length === 0)) {
    const explanation =
      "expected the master's name and at least one Sentinel, because redis.mode is sentinel";
    return conflict(["redis.sentinel"], explanation);
  }
  return [];
}

function repeatedApps({ apps }: ReadableSettings, sources: SettingSources): Conflict[] {
  const ids = (apps?.listed ?? []).map((app) => app?.id);
  return ids.flatMap((id, index): Conflict[] => {
    const first = ids.indexOf(id);
    if (id === undefined || first === index) return [];
    const other = sources.pathOf(["apps", "listed", first]);
    const explanation = `${JSON.stringify(id)} is the id of ${other} already; expected each id once`;
    return [{ paths: [["apps", "listed", index, "id"]], explanation }];
  });
}

/** The ledger must keep each request for as long as a window counts it. */
function retentionConflicts({ budget, ledger }: ReadableSettings): Conflict[] {
  const retentionMs = ledger?.retentionMs;
  if (retentionMs === undefined) return [];
  return (["limit", "images"] as const).flatMap((name): Conflict[] => {
    const longestMs = Math.max(0, ...(budget?.[name] ?? []).map(({ windowMs }) => windowMs));
    if (retentionMs >= longestMs) return [];
    const explanation =
      `the ledger keeps requests for ${formatDuration(retentionMs)}, but a window of the budget is ` +
      `${formatDuration(longestMs)} long; expected a retention of at least that window`;
    return conflict(["ledger.retention", `budget.${name}`], explanation);
  });
}

function conflict(names: readonly string[], explanation: string): Conflict[] {
  return [{ paths: names.map((name) => name.split(".")), explanation }];
}
