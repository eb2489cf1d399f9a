/**
 * The circuit between the gateway and a part of the upstream that asked to be left alone, or cannot be
 * reached. Pure; instants are milliseconds of the clock of the windows.
 *
 * | state     | means                                            | becomes                                    |
 * |-----------|--------------------------------------------------|--------------------------------------------|
 * | closed    | requests go                                      | open, when told to slow down               |
 * | open      | none goes until the time named has passed        | half-open, when it has                     |
 * | half-open | one goes, to try; the others wait for its answer | closed, or open for longer, as it fares    |
 *
 * What was asked for one reason holds back only what that reason concerns: `too-many-requests` and
 * `unreachable` the whole origin, `unavailable` the resource that said so.
 */
import type { CircuitState, SendEnd, SlowDownCause } from "../types.ts";

export interface Circuit {
  openUntil: number;
  cause: SlowDownCause;
  /** How long it was opened for the last time. */
  coolOffMs: number;
  /** The send that tries, while there is one. */
  probe: string | undefined;
  /** By then it has ended, or never will. */
  probeUntil: number;
}

/** What is held back: the whole origin, or one resource. */
export type CircuitScope = "origin" | "resource";

export const SCOPE_OF = {
  "too-many-requests": "origin",
  unreachable: "origin",
  unavailable: "resource",
} as const satisfies Record<SlowDownCause, CircuitScope>;

/** So many connections refused in a row open the circuit. */
export const REFUSED_IN_A_ROW = 3;
/** Where nobody said for how long; twice as long each time it fails again. */
const FIRST_COOL_OFF_MS = 1_000;

/** A circuit that does not exist is closed. */
export function stateOf(circuit: Circuit | undefined, now: number): CircuitState {
  if (circuit === undefined) return "closed";
  return now < circuit.openUntil ? "open" : "half-open";
}

/** When a request may go as far as the circuit is concerned: an instant, not before `now`. */
export function passableAt(circuit: Circuit | undefined, now: number): number {
  if (circuit === undefined) return now;
  if (now < circuit.openUntil) return circuit.openUntil;
  return circuit.probe === undefined ? now : Math.max(now, circuit.probeUntil);
}

/**
 * Opens a circuit, or keeps it open for longer: for as long as the upstream said, else twice as long as
 * the last time, and never for longer than the cap.
 */
export function opened(
  circuit: Circuit | undefined,
  { cause, forMs }: NonNullable<SendEnd["slowDown"]>,
  now: number,
  maxCoolOffMs: number,
): Circuit {
  const again = circuit === undefined ? FIRST_COOL_OFF_MS : circuit.coolOffMs * 2;
  const coolOffMs = Math.min(Math.max(forMs ?? again, FIRST_COOL_OFF_MS), maxCoolOffMs);
  const openUntil = Math.max(circuit?.openUntil ?? 0, now + coolOffMs);
  return { cause, coolOffMs, openUntil, probe: undefined, probeUntil: 0 };
}
