/**
 * The access log: which requests and upstream calls get a line, and what the line says about the caller. `log.access`
 * selects the lines; of `log.level`, only `silent` turns them off.
 */
import { isIP } from "node:net";

import proxyAddr from "proxy-addr";

import type { CallerFacts, RequestRecord, UpstreamCallRecord } from "./events.ts";
import type { Logger } from "./log.ts";

/** A part of the section `log` of the settings. */
interface LogSettings {
  readonly level: string;
  readonly access: "on" | "off" | "sampled" | "errors";
  readonly accessSample: number;
}

const LONGEST_FORWARDED = 256;

/** @param trustedProxies see `createClientAddress` */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createAccessLog(
  { line }: Pick<Logger, "line">,
  current: () => LogSettings,
  trustedProxies: readonly string[],
) {
  const clientOf = createClientAddress(trustedProxies);
  let hits = 0;

  function isWanted(isError: boolean, isHit: boolean): boolean {
    const { level, access, accessSample } = current();
    if (level === "silent" || access === "off") return false;
    if (access === "errors") return isError;
    return access === "on" || !isHit || hits++ % accessSample === 0;
  }

  function request(record: RequestRecord, caller?: CallerFacts): void {
    if (!isWanted(record.status >= 400, record.outcome === "hit")) return;
    const headers = caller?.headers ?? {};
    // Undefined fields are omitted.
    line({
      ...record,
      receivedAt: undefined,
      durationMs: rounded(record.durationMs),
      client: caller && clientOf(caller),
      // What the caller or a proxy claims.
      forwardedFor: headers["x-forwarded-for"]?.toString().slice(0, LONGEST_FORWARDED),
      traceparent: record.traceparent ?? traceparentIn(headers),
      msg: "request",
    });
  }

  function upstreamCall(record: UpstreamCallRecord): void {
    const isError = typeof record.status !== "number" || record.status >= 400;
    if (isWanted(isError, false))
      line({ ...record, durationMs: rounded(record.durationMs), msg: "upstream call" });
  }

  return { request, upstreamCall };
}

/** Rounds to three decimals. */
function rounded(durationMs: number): number {
  return Math.round(durationMs * 1_000) / 1_000;
}

/** Version 00 of W3C Trace Context, and later versions that begin with the same fields. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

/** @returns the caller's `traceparent` (W3C Trace Context), if it is well-formed */
export function traceparentIn(headers: CallerFacts["headers"]): string | undefined {
  const value = headers["traceparent"];
  return typeof value === "string" && TRACEPARENT.test(value) ? value.slice(0, 55) : undefined;
}

/**
 * @param trusted addresses and networks of proxies; `loopback`, `linklocal` and `uniquelocal` name networks
 * @returns a function that returns a caller's address: the nearest address that is not a trusted proxy. So it uses only the
 *   part of `X-Forwarded-For` that trusted proxies wrote. `undefined` if the connection is already closed.
 */
export function createClientAddress(trusted: readonly string[]): (caller: CallerFacts) => string | undefined {
  if (trusted.length === 0) return ({ socket }) => socket.remoteAddress;
  const isTrusted = proxyAddr.compile([...trusted]);
  return (caller) => {
    const client = proxyAddr(Object(caller), isTrusted);
    return isIP(client) === 0 ? caller.socket.remoteAddress : client;
  };
}
