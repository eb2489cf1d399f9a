/** Describes an open circuit as an outage of the upstream. */
import { type OriginName, resourcesOf } from "../../interface/resources.ts";
import { circuitLabel, type CircuitScope, type Outage } from "../../telemetry/events.ts";
import { CAUSES, type CircuitCause } from "./failures.ts";

const MEANWHILE =
  "Callers get cached answers, also stale ones if cache.staleIfError allows it, else 502 or 503. From time to time one call " +
  "tests whether the upstream is back.";
const MEANWHILE_PAUSED =
  "Callers get cached answers, also stale ones if cache.staleIfError allows it. Others wait if their deadline allows it, " +
  "else they get 503 or 429.";

export function outageOf(
  origin: OriginName,
  scope: CircuitScope,
  circuit: { readonly cause: CircuitCause; readonly isAsked: boolean },
): Outage {
  return {
    what: outageName(origin, scope),
    cause: CAUSES[circuit.cause].says,
    meanwhile: circuit.isAsked ? MEANWHILE_PAUSED : MEANWHILE,
    resources: scope === "origin" ? resourcesOf(origin) : [scope],
  };
}

/** As in the label of `gateway_circuit_state`. */
export function outageName(origin: OriginName, scope: CircuitScope): string {
  return `upstream ${circuitLabel(origin, scope)}`;
}
