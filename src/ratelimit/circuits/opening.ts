/**
 * The rules of the circuits: when the gateway sends nothing to a part of the upstream. Pure. Instants are milliseconds of
 * the monotonic clock.
 *
 * | Cause               | Opens                                                        | Scope        |
 * |---------------------|--------------------------------------------------------------|--------------|
 * | `too-many-requests` | on a 429                                                     | the origin   |
 * | `unavailable`       | on a 503 with `Retry-After`                                  | the resource |
 * | `failing`           | on 4 failures that are half of the last calls (500, 503, timeouts, resets) | the resource |
 * | `unreachable`       | on 3 calls in a row that reached nothing                     | the origin   |
 * | `credentials`       | on 401 or 403 to 3 different questions in a row              | the origin   |
 *
 * An open circuit becomes half-open when its time has passed. Then one call goes as a probe, and the circuit stays open for
 * the others. The end of the probe closes the circuit or opens it for another interval.
 */
import type { Resource } from "../../interface/resources.ts";
import type { SendEnd } from "../throttled.ts";
import type { RateWindow } from "../../usage/rate-window.ts";
import { probeIntervalMs } from "./probes.ts";

export type CircuitCause = "too-many-requests" | "unavailable" | "failing" | "unreachable" | "credentials";

/** The part of the upstream that a circuit stops. */
export type CircuitScope = "origin" | Resource;

export interface OpenCircuit {
  readonly cause: CircuitCause;
  readonly openedAt: number;
  readonly until: number;
  /** Probes that have failed since it opened. */
  readonly failedProbes: number;
  /** The upstream itself named the time. */
  readonly isAsked: boolean;
  /** When the probe was sent that has not ended yet. */
  readonly probedAt?: number;
}

/** The health of an origin. Only `ended` and `close` change it. */
export interface Health {
  readonly circuits: Map<CircuitScope, OpenCircuit>;
  /** The last calls of each resource. */
  readonly outcomes: Map<Resource, readonly { readonly at: number; readonly isFailure: boolean }[]>;
  unreachableInARow: number;
  /** Different questions that were refused for their credentials, since the last answer. */
  readonly refusedQuestions: Set<string>;
}

export function createHealth(): Health {
  return { circuits: new Map(), outcomes: new Map(), unreachableInARow: 0, refusedQuestions: new Set() };
}

export interface CircuitRules {
  /** The longest pause. A longer `Retry-After` of the upstream is cut to it. */
  readonly maxCoolOffMs: number;
  readonly windows: readonly RateWindow[];
  /** From 0 up to 1: jitter. */
  readonly fraction: () => number;
}

/** A call that has ended. */
export interface EndedCall {
  readonly resource: Resource;
  /** Identifies the question. */
  readonly question: string;
  readonly end: Pick<SendEnd, "status" | "slowDown">;
  /** The scopes of which this call was the probe. */
  readonly probeOf: readonly CircuitScope[];
}

const OUTCOMES = 10;
const OUTCOMES_MS = 5 * 60_000;
const FAILURES_TO_OPEN = 4;
const UNREACHABLE_TO_OPEN = 3;
const REFUSED_TO_OPEN = 3;
/** The shortest pause that the upstream can ask for. */
const SHORTEST_ASKED_MS = 1_000;
/** A probe that has not ended after this time counts as lost. */
const PROBE_MS = 30_000;

/** A probe starts: until it ends, the circuits are open for other calls. */
export function beginProbe({ circuits }: Health, scopes: readonly CircuitScope[], now: number): void {
  for (const scope of scopes) {
    const circuit = circuits.get(scope);
    if (circuit) circuits.set(scope, { ...circuit, until: now + PROBE_MS, probedAt: now, isAsked: false });
  }
}

/** The next call may be a probe. */
export function halfOpen({ circuits }: Health, scope: CircuitScope, now: number): void {
  const { probedAt: _ended, ...circuit } = circuits.get(scope) ?? {};
  if ("cause" in circuit) circuits.set(scope, { ...circuit, until: now, isAsked: false });
}

/**
 * Records the end of a call.
 * @returns the scopes whose circuit has changed
 */
export function ended(health: Health, call: EndedCall, rules: CircuitRules, now: number): CircuitScope[] {
  const kind = kindOf(call.end);
  const changed = new Set<CircuitScope>();
  const probed = call.probeOf.filter((scope) => health.circuits.has(scope));
  if (kind !== "unknown") count(health, call, kind, now);
  for (const scope of probed) {
    changed.add(scope);
    if (kind === "unknown") halfOpen(health, scope, now);
    else if (kind === "answered") close(health, scope);
    else open(health, scope, { ...causeOf(health, scope, call, kind), isProbe: true }, rules, now);
  }
  if (kind === "unknown") return [...changed];
  if (probed.length > 0)
    for (const scope of shiftOthers(health, probed, kind, rules, now)) changed.add(scope);
  const found = circuitFor(health, call, kind, now);
  // The call may have been sent before the circuit opened. It is new only if the upstream names a time.
  const isNew = found !== undefined && (!isOpen(health, found.scope, now) || found.forMs !== undefined);
  if (found !== undefined && isNew && !changed.has(found.scope)) {
    open(health, found.scope, { ...found, isProbe: false }, rules, now);
    changed.add(found.scope);
  }
  return [...changed];
}

/**
 * The open circuits of an origin take turns with their probes, so that together they cost no more than one. When one of them
 * finds the upstream back, the others try at once.
 */
function shiftOthers(
  health: Health,
  probed: readonly CircuitScope[],
  kind: Kind,
  { windows }: CircuitRules,
  now: number,
): CircuitScope[] {
  const others = probing(health).filter((scope) => !probed.includes(scope));
  for (const scope of others) {
    const circuit = health.circuits.get(scope);
    if (circuit === undefined || circuit.probedAt !== undefined) continue;
    if (kind === "answered") halfOpen(health, scope, now);
    else {
      const next = now + probeIntervalMs({ ...circuit, ageMs: now - circuit.openedAt }, windows);
      health.circuits.set(scope, { ...circuit, until: Math.max(circuit.until, next) });
    }
  }
  return others;
}

/** The open circuits that are closed by probes at intervals, not at a time that the upstream named. */
function probing({ circuits }: Health): CircuitScope[] {
  return [...circuits]
    .filter(([, { isAsked, cause }]) => !isAsked && cause !== "credentials")
    .map(([scope]) => scope);
}

export type CircuitState = "closed" | "open" | "half-open";

export function stateOf(circuit: OpenCircuit | undefined, now: number): CircuitState {
  if (circuit === undefined) return "closed";
  return now < circuit.until && circuit.probedAt === undefined ? "open" : "half-open";
}

/** Closes a circuit and forgets what opened it. */
export function close(health: Health, scope: CircuitScope): void {
  const circuit = health.circuits.get(scope);
  health.circuits.delete(scope);
  if (scope === "origin") health.unreachableInARow = 0;
  else health.outcomes.delete(scope);
  if (circuit?.cause === "credentials") health.refusedQuestions.clear();
}

/** `unknown`: the call ended before the upstream could answer, so it is neither a success nor a failure. */
type Kind = "answered" | "failed" | "unreachable" | "credentials" | "slow-down" | "unknown";

const UNKNOWN: ReadonlySet<SendEnd["status"]> = new Set(["given-up", "stale-connection", "no-descriptor"]);

function kindOf({ status, slowDown }: EndedCall["end"]): Kind {
  if (status === 401 || status === 403) return "credentials";
  if (slowDown?.cause === "unreachable") return "unreachable";
  if (slowDown !== undefined) return "slow-down";
  if (typeof status === "number") return status >= 500 ? "failed" : "answered";
  if (UNKNOWN.has(status)) return "unknown";
  // Only this answer is useless. The upstream works.
  return status === "too-large" ? "answered" : "failed";
}

function count(health: Health, { resource, question }: EndedCall, kind: Kind, now: number): void {
  health.unreachableInARow = kind === "unreachable" ? health.unreachableInARow + 1 : 0;
  if (kind === "credentials") health.refusedQuestions.add(question);
  if (kind === "answered") health.refusedQuestions.clear();
  const recent = (health.outcomes.get(resource) ?? []).filter(({ at }) => now - at < OUTCOMES_MS);
  const isFailure = kind === "failed" || kind === "unreachable";
  health.outcomes.set(resource, [...recent.slice(1 - OUTCOMES), { at: now, isFailure }]);
}

interface Found {
  readonly scope: CircuitScope;
  readonly cause: CircuitCause;
  readonly forMs: number | undefined;
}

function circuitFor(
  health: Health,
  { resource, end }: EndedCall,
  kind: Kind,
  now: number,
): Found | undefined {
  const forMs = end.slowDown?.forMs;
  if (kind === "slow-down")
    return end.slowDown?.cause === "unavailable"
      ? { scope: resource, cause: "unavailable", forMs }
      : { scope: "origin", cause: "too-many-requests", forMs };
  if (kind === "credentials" && health.refusedQuestions.size >= REFUSED_TO_OPEN)
    return { scope: "origin", cause: "credentials", forMs };
  if (health.unreachableInARow >= UNREACHABLE_TO_OPEN)
    return { scope: "origin", cause: "unreachable", forMs };
  const recent = (health.outcomes.get(resource) ?? []).filter(({ at }) => now - at < OUTCOMES_MS);
  const failures = recent.filter(({ isFailure }) => isFailure).length;
  const isFailing = failures >= FAILURES_TO_OPEN && failures * 2 >= recent.length;
  return kind === "failed" && isFailing ? { scope: resource, cause: "failing", forMs } : undefined;
}

/** Why a circuit opens again after a failed probe. */
function causeOf(health: Health, scope: CircuitScope, { end }: EndedCall, kind: Kind): Omit<Found, "scope"> {
  const cause = health.circuits.get(scope)?.cause ?? "failing";
  if (kind === "credentials") return { cause: "credentials", forMs: undefined };
  return { cause, forMs: end.slowDown?.forMs };
}

function isOpen(health: Health, scope: CircuitScope, now: number): boolean {
  return now < (health.circuits.get(scope)?.until ?? 0);
}

function open(
  health: Health,
  scope: CircuitScope,
  { cause, forMs, isProbe }: Omit<Found, "scope"> & { readonly isProbe: boolean },
  rules: CircuitRules,
  now: number,
): void {
  const { circuits } = health;
  const before = circuits.get(scope);
  const openedAt = before?.cause === cause ? before.openedAt : now;
  const failedProbes = before === undefined ? 0 : before.failedProbes + (isProbe ? 1 : 0);
  const turns = Math.max(1, probing(health).filter((other) => other !== scope).length + 1);
  const intervalMs =
    turns *
    probeIntervalMs({ cause, failedProbes, ageMs: now - openedAt }, rules.windows) *
    (1 + rules.fraction() / 20);
  // Intervals count from the start of the probe, which may have waited long for its answer.
  const next = (isProbe ? (before?.probedAt ?? now) : now) + Math.ceil(intervalMs);
  const asked = forMs === undefined ? 0 : Math.min(Math.max(forMs, SHORTEST_ASKED_MS), rules.maxCoolOffMs);
  const until = forMs === undefined ? Math.max(now, next) : now + Math.ceil(asked);
  const isLonger = !isProbe && before !== undefined && before.until > until;
  circuits.set(scope, {
    cause,
    openedAt,
    until: isLonger ? before.until : until,
    failedProbes,
    isAsked: forMs !== undefined,
  });
}
