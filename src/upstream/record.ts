/**
 * Records one call: for the budget and the circuits as soon as its head has arrived, for log, metrics and traces at its end.
 */
import type { Clock } from "../process/clock.ts";
import type { Observer, Trace, UpstreamCallRecord, UpstreamFaultKind } from "../telemetry/events.ts";
import type { SendEnd } from "../ratelimit/throttled.ts";

export type CallStatus = number | UpstreamFaultKind;

interface CallRecord {
  /** The head has arrived, or never will. Only the first report counts. */
  readonly begun: (status: CallStatus, slowDown?: SendEnd["slowDown"], headAt?: number) => void;
  /** @param note why the call failed, for the log */
  readonly ended: (status: CallStatus, bytes: number, note?: string) => void;
}

/** @param report tells the budget and the circuits how the call went */
export function recordCall(
  {
    resource,
    query,
    cause,
    trace,
  }: Pick<UpstreamCallRecord, "resource" | "query" | "cause"> & {
    readonly trace?: Trace | undefined;
  },
  report: (end: SendEnd) => void,
  { clock, observer }: { readonly clock: Clock; readonly observer: Pick<Observer, "upstreamCall"> },
): CallRecord {
  const [startedAt, begunAt] = [clock.monotonic(), clock.precise()];
  const span = trace?.begin("upstream call", { resource, query, cause });
  let isReported = false;
  return {
    begun(status, slowDown, headAt = clock.monotonic()) {
      if (isReported) return;
      isReported = true;
      const durationMs = clock.monotonic() - startedAt;
      report({ status, durationMs, arrivedAfterMs: headAt - startedAt, ...(slowDown && { slowDown }) });
    },
    ended(status, bytes, note) {
      span?.end({ status, bytes, ...(note !== undefined && { error: String(status) }) });
      const durationMs = clock.precise() - begunAt;
      const noted = note === undefined ? {} : { note };
      observer.upstreamCall({ resource, query, cause, status, durationMs, bytes, ...noted });
    },
  };
}
