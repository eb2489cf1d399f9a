/**
 * What is held against every place that is given, whoever gave it: background work leaves the reserve
 * alone, and while the upstream is to be left alone nothing is sent but one probe, whatever the replicas.
 * It reckons for itself, by what it is told and sees arrive.
 */
import type { Candidate, Terms } from "../../src/ratelimit/arbiter.ts";
import type { Circuit } from "../../src/ratelimit/circuit.ts";
import type { EndReport } from "../../src/ratelimit/shared-budget.ts";

const FIRST_COOL_OFF_MS = 1_000;
const REFUSED_IN_A_ROW = 3;

export interface Watch {
  /** The shared budget has given a place. */
  readonly granted: (id: string, wish: Candidate, terms: Terms) => void;
  /** A replica that is cut off has given one to itself. */
  readonly grantedAlone: (id: string, wish: Candidate, terms: Terms, replica: string) => void;
  readonly settled: (ends: readonly EndReport[], terms: Terms) => void;
  readonly arrived: (id: string) => void;
  /** The shared budget has restarted, and remembers these. */
  readonly restarted: (circuits: ReadonlyMap<string, Circuit>, refusedInARow: number) => void;
  /** What was seen that must not be; to be asked when everything has arrived. */
  readonly problems: () => readonly string[];
}

interface Place {
  readonly id: string;
  readonly at: number;
  readonly isBackground: boolean;
  /** The replica that gave it to itself while it was cut off. */
  readonly givenBy: string | undefined;
  readonly terms: Terms;
  arrivedAt: number | undefined;
}

interface Open {
  until: number;
  forMs: number;
  probe: { readonly id: string; readonly until: number } | undefined;
}

/** @param now by the clock of the shared budget */
export function createWatch(now: () => number): Watch {
  /** In the order in which they were given. */
  const places = new Map<string, Place>();
  const circuits = createCircuitWatch(now);

  function enter(id: string, { priority }: Candidate, terms: Terms, givenBy?: string): void {
    const isBackground = priority !== "interactive";
    places.set(id, { id, at: now(), isBackground, givenBy, terms, arrivedAt: undefined });
  }

  return {
    granted(id, wish, terms) {
      enter(id, wish, terms);
      circuits.granted(id, wish, terms);
    },
    grantedAlone: enter,
    settled: circuits.settled,
    arrived(id) {
      const place = places.get(id);
      if (place !== undefined) place.arrivedAt = now();
    },
    restarted: circuits.restarted,
    problems: () => {
      const given = [...places.values()];
      return [...circuits.problems, ...reserveTouched(given), ...tooLate(given)];
    },
  };
}

/** What has arrived later than it had to counts in a window in which nobody reckons with it. */
function tooLate(places: readonly Place[]): string[] {
  const late = places.filter(({ at, arrivedAt = at, terms }) => arrivedAt > at + terms.leaseMs);
  return late.map(({ id, at, arrivedAt }) => `${id} was given a place at ${at} and arrived at ${arrivedAt}`);
}

/**
 * When background work was given a place, no more counted than it may share, as far as whoever gave it could know:
 * callers of replicas that are cut off take of the reserve unseen.
 */
function reserveTouched(places: readonly Place[]): string[] {
  const problems: string[] = [];
  const sent = places.filter(({ arrivedAt }) => arrivedAt !== undefined);
  const limits = places[0]?.terms.windows.map((_, index) =>
    Math.max(
      ...places.map(({ terms: { windows, reserve } }) => {
        const limit = windows[index]?.limit ?? 0;
        return limit - Math.floor(limit * reserve);
      }),
    ),
  );
  for (const [index, { id, at, isBackground, givenBy, terms }] of sent.entries()) {
    if (!isBackground || terms.reserve === 0) continue;
    for (const [which, { windowMs }] of terms.windows.entries()) {
      let counted = 0;
      for (let before = index; before >= 0; before--) {
        const other = sent[before];
        if (other === undefined || other.at < at - windowMs - terms.leaseMs) break;
        const isSeen = other.givenBy === undefined || other.givenBy === givenBy;
        if (isSeen && (other.arrivedAt ?? 0) > at - windowMs) counted++;
      }
      const limit = limits?.[which] ?? 0;
      if (counted > limit)
        problems.push(`background work ${id} at ${at} is one of ${counted}, where it may share ${limit}`);
    }
  }
  return problems.slice(0, 3);
}

interface CircuitWatch extends Pick<Watch, "granted" | "settled" | "restarted"> {
  readonly problems: readonly string[];
}

function createCircuitWatch(now: () => number): CircuitWatch {
  const problems: string[] = [];
  const open = new Map<string, Open>();
  let refused = 0;

  function turn(scope: string, terms: Terms): void {
    const before = open.get(scope);
    const forMs = Math.min(before === undefined ? FIRST_COOL_OFF_MS : before.forMs * 2, terms.maxCoolOffMs);
    open.set(scope, { forMs, until: now() + forMs, probe: undefined });
  }

  function probed({ id, resource, isUnsent, isAnswered }: EndReport, terms: Terms): void {
    for (const scope of ["origin", resource]) {
      const circuit = open.get(scope);
      if (circuit?.probe?.id !== id) continue;
      if (isUnsent) circuit.probe = undefined;
      else if (isAnswered) open.delete(scope);
      else turn(scope, terms);
    }
  }

  function told({ resource, slowDown, isUnsent }: EndReport, terms: Terms): void {
    if (isUnsent) return;
    refused = slowDown?.cause === "unreachable" ? refused + 1 : 0;
    if (slowDown === undefined || (refused > 0 && refused < REFUSED_IN_A_ROW)) return;
    const scope = slowDown.cause === "unavailable" ? resource : "origin";
    if (now() >= (open.get(scope)?.until ?? Number.NEGATIVE_INFINITY)) turn(scope, terms);
  }

  return {
    problems,
    granted(id, { resource }, { leaseMs }) {
      for (const scope of ["origin", resource]) {
        const circuit = open.get(scope);
        if (circuit === undefined) continue;
        if (now() < circuit.until) problems.push(`${id} goes at ${now()} in a cool-off of ${scope}`);
        if (circuit.probe !== undefined && now() < circuit.probe.until)
          problems.push(`${id} goes at ${now()} while ${circuit.probe.id} is to try ${scope}`);
        circuit.probe = { id, until: now() + leaseMs };
      }
    },
    settled(ends, terms) {
      for (const end of ends) {
        probed(end, terms);
        told(end, terms);
      }
    },
    restarted(circuits, refusedInARow) {
      open.clear();
      refused = refusedInARow;
      for (const [scope, { openUntil, coolOffMs, probe, probeUntil }] of circuits) {
        const probing = probe === undefined ? undefined : { id: probe, until: probeUntil };
        open.set(scope, { until: openUntil, forMs: coolOffMs, probe: probing });
      }
    },
  };
}
