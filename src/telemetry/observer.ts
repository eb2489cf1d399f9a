/** Passes each event to all listeners: log, metrics, outages, the status page. The stages report to it. */
import type { Observer } from "./events.ts";
import type { Logger } from "./log.ts";

export function createObserver(listeners: readonly Partial<Observer>[]): Observer {
  return {
    request: tellAll(listeners.map(({ request }) => request)),
    upstreamCall: tellAll(listeners.map(({ upstreamCall }) => upstreamCall)),
    refreshed: tellAll(listeners.map(({ refreshed }) => refreshed)),
    warmed: tellAll(listeners.map(({ warmed }) => warmed)),
    outOfOrder: tellAll(listeners.map(({ outOfOrder }) => outOfOrder)),
    backInOrder: tellAll(listeners.map(({ backInOrder }) => backInOrder)),
    info: tellAll(listeners.map(({ info }) => info)),
    warn: tellAll(listeners.map(({ warn }) => warn)),
    error: tellAll(listeners.map(({ error }) => error)),
  };
}

function tellAll<Event extends unknown[]>(
  listeners: readonly (((...event: Event) => void) | undefined)[],
): (...event: Event) => void {
  const listening = listeners.filter((listener) => listener !== undefined);
  return (...event) => {
    for (const listener of listening) listener(...event);
  };
}

/** Writes messages for operators to the log. */
export function createMessageLog(log: Logger): Pick<Observer, "info" | "warn" | "error"> {
  return {
    info: (message, fields) => log.info(fields, message),
    warn: (message, fields) => log.warn(fields, message),
    error: (message, fields) => log.error(fields, message),
  };
}
