/**
 * The access log: a line for each request and each upstream call. `log.access` selects the lines, whatever `log.level`
 * says; only `log.level: silent` silences it, too.
 */
import type { CallerFacts, RequestRecord, UpstreamCallRecord } from "../types.ts";
import { type CallerFields, rounded } from "./access-log.ts";
import type { Logger } from "./log.ts";
import type { LogSettings } from "./log-control.ts";

export interface AccessLog {
  readonly request: (record: RequestRecord, caller: CallerFacts | undefined) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
}

/** @param clientOf the address of a caller */
export function createAccessLog(
  log: Logger,
  current: () => LogSettings,
  clientOf: (caller: CallerFacts) => string | undefined,
): AccessLog {
  /** The lines of upstream calls do not depend on the level either. */
  const calls = log.child({}, { level: "info" });
  let hits = 0;

  function isWanted({ outcome, status }: RequestRecord): boolean {
    const { level, access, accessSample } = current();
    if (level === "silent") return false;
    switch (access) {
      case "on":
        return true;
      case "sampled":
        return outcome !== "hit" || hits++ % accessSample === 0;
      case "errors":
        return status >= 400;
      case "off":
        return false;
    }
  }

  return {
    request(record, caller) {
      if (isWanted(record)) log.request(record, caller ? fieldsOf(caller, clientOf(caller)) : {});
    },
    upstreamCall(record) {
      const { level, access } = current();
      const isError = typeof record.status !== "number" || record.status >= 400;
      if (level === "silent" || access === "off" || (access === "errors" && !isError)) return;
      calls.info({ ...record, durationMs: rounded(record.durationMs) }, "upstream call");
    },
  };
}

const LONGEST_FORWARDED = 256;

function fieldsOf({ headers }: CallerFacts, client: string | undefined): CallerFields {
  return {
    client,
    forwardedFor: headers["x-forwarded-for"]?.toString().slice(0, LONGEST_FORWARDED),
    traceparent: traceparentIn(headers),
  };
}

/** Version 00 of W3C Trace Context, and later versions as far as they look alike. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

/** @returns the caller's `traceparent` (W3C Trace Context), if it is well-formed */
export function traceparentIn(headers: CallerFacts["headers"]): string | undefined {
  const value = headers["traceparent"];
  return typeof value === "string" && TRACEPARENT.test(value) ? value.slice(0, 55) : undefined;
}
