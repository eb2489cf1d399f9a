/** Describes open circuits as outages of the upstream. */
import { type OriginName, type Outage } from "../types.ts";
import { RESOURCES, originOf } from "../interface/resources.ts";
import type { CircuitCause, CircuitScope } from "./circuit-breaker.ts";

const CAUSES: Readonly<Record<CircuitCause, string>> = {
  "too-many-requests": "it answered 429: too many requests",
  unavailable: "it answered 503 with a time to come back",
  failing: "most of its last answers were errors or timeouts",
  unreachable: "no connection could be made",
  credentials: "it refused our credentials",
};

const MEANWHILE =
  "Callers get cached answers, also stale ones if cache.staleIfError allows it, else 503. From time to time one call " +
  "tests whether the upstream is back.";
const MEANWHILE_ASKED =
  "Callers get cached answers, also stale ones if cache.staleIfError allows it. Others wait if their deadline allows it, " +
  "else they get 503 or 429.";

/** @returns the outage that the log reports while a circuit of an origin is open */
export function outageOf(
  origin: OriginName,
  scope: CircuitScope,
  circuit: { readonly cause: CircuitCause; readonly isAsked: boolean },
): Outage {
  return {
    what: outageName(origin, scope),
    cause: CAUSES[circuit.cause],
    meanwhile: circuit.isAsked ? MEANWHILE_ASKED : MEANWHILE,
    resources: scope === "origin" ? RESOURCES.filter((one) => originOf(one) === origin) : [scope],
  };
}

/** As in the label of `gateway_circuit_state`. */
export function outageName(origin: OriginName, scope: CircuitScope): string {
  return `upstream ${origin}/${scope === "origin" ? "all" : scope}`;
}
