/**
 * The circuits of an origin in this process: which calls they stop, and which call is the probe. Each scope has one circuit.
 *
 * | State     | Until                                                        | Calls                                      |
 * |-----------|--------------------------------------------------------------|--------------------------------------------|
 * | closed    | failed or refused calls open it (failures.ts)                | go                                         |
 * | open      | its time has passed (probes.ts, or the upstream named a time) | are refused; they wait if a time was named |
 * | half-open | a call departs, which is the probe                           | the first one is the probe                 |
 * | probing   | the probe has ended. That closes the circuit or opens it again | wait a moment for the end of the probe   |
 *
 * Each change is published to the other replicas (redis-circuits.ts), except that of refused credentials. Instants are
 * milliseconds of the monotonic clock.
 */
import { LRUCache } from "lru-cache";

import { atMostEvery } from "../../process/clock.ts";
import type { PartOptions } from "../budget-options.ts";
import type { SendEnd, UpstreamRequest } from "../call-facts.ts";
import { resourcesOf } from "../../interface/resources.ts";
import { circuitLabel, type CircuitScope } from "../../telemetry/events.ts";
import { CAUSES, type CircuitCause, type Result, kindOf, LastCalls } from "./failures.ts";
import { probeIntervalMs } from "./probes.ts";
import { type OpenCircuit, shifted } from "./redis-circuits.ts";

/** A call as far as circuits are concerned. The query identifies the question. */
export type CircuitCall = Pick<UpstreamRequest, "resource" | "query" | "cause">;

/** Why a call may not go now. */
export interface Stop {
  readonly until: number;
  readonly cause: CircuitCause;
  /** A probe will end soon, or the upstream named a time. Otherwise the call is refused immediately. */
  readonly mayWait: boolean;
}

/** The shortest pause that the upstream can ask for. */
const SHORTEST_ASKED_MS = 1_000;
/** A probe that has not ended after this time counts as lost. */
const PROBE_MS = 30_000;
/** How long callers wait for the end of a probe. An upstream that works again answers in this time. */
const PROBE_ANSWERED_MS = 1_000;
/**
 * A circuit whose probe has failed lets other open circuits go first for one to two times this time. Their callers were told the
 * time of the next probe in whole seconds.
 */
const OTHERS_FIRST_MS = 1_000;
/** If a probe has been due for longer than this, no call for the circuit's resource has come. */
const DUE_MS = 400;
/** The other replicas let the one that opened a circuit send the probe. */
const OTHERS_LATER_MS = 500;
/** Retries are at most this part of all calls, apart from those with new credentials. */
const RETRIES = 0.1;
/** Most retries that are saved for later. */
const MOST_RETRIES = 3;
const MOST_QUESTIONS = 1_000;

export class Circuits {
  /**
   * Sends a probe. It is called when the credentials may be tried again and no caller asks a question that was answered
   * before, and when an operator tries the circuits. @returns whether there is a question that it can repeat
   */
  probeWanted = (): boolean => false;
  /** It is called when the circuits have changed. */
  changed = (): void => undefined;
  readonly #options: PartOptions;
  readonly #now: () => number;
  readonly #open = new Map<CircuitScope, OpenCircuit>();
  readonly #lastCalls = new LastCalls();
  /** Questions that the upstream has answered. If it refuses one of them, the credentials are the cause, not the question. */
  readonly #answered = new LRUCache<string, true>({ max: MOST_QUESTIONS });
  /** The version of the key that the upstream refused last. */
  #refusedKey: number;
  #retries = MOST_RETRIES;
  #unlogged = 0;
  /** Logs refused credentials: immediately, then once a minute with the count. */
  readonly #logRefused: () => void;

  constructor(options: PartOptions) {
    this.#options = options;
    this.#now = options.clock.monotonic;
    this.#refusedKey = options.keyVersion();
    this.#logRefused = atMostEvery(this.#now, () => {
      options.observer.warn(CREDENTIALS_REFUSED, { refusedCalls: this.#unlogged });
      this.#unlogged = 0;
    });
    options.shared?.subscribe((scope, circuit) => this.#receive(scope, circuit));
  }

  /** Why a call may not go now; `undefined`: it may. The circuits of the origin and of the resource both apply. */
  stopOf(call: CircuitCall): Stop | undefined {
    if (this.#open.size === 0) return undefined;
    if (this.#open.get("origin")?.cause === "credentials" && this.#options.keyVersion() !== this.#refusedKey)
      this.#set("origin", undefined);
    const stops = this.#openFor(call).flatMap(([, circuit]) => this.#stopBy(circuit, call) ?? []);
    const last = stops.toSorted((a, b) => b.until - a.until);
    return last.find(({ mayWait }) => !mayWait) ?? last[0];
  }

  #openFor({ resource }: CircuitCall): [CircuitScope, OpenCircuit][] {
    return [...this.#open].filter(([scope]) => scope === "origin" || scope === resource);
  }

  #stopBy({ cause, isAsked, until, probedAt }: OpenCircuit, call: CircuitCall): Stop | undefined {
    const now = this.#now();
    const answeredBy = probedAt === undefined ? now : probedAt + PROBE_ANSWERED_MS;
    if (now < until && now < answeredBy) return { until: answeredBy, cause, mayWait: true };
    if (now < until) return { until, cause, mayWait: isAsked };
    // Before the first answer, every question may be the probe.
    const isKnown = this.#answered.size === 0 || this.#answered.has(call.query);
    const mayProbe = call.cause !== "retry" && (cause !== "credentials" || isKnown);
    return mayProbe ? undefined : { until: now + 1_000, cause, mayWait: false };
  }

  /**
   * A call departs. If a circuit is half-open, the call is its probe. It adds to the retry budget, unless it is a retry.
   * @returns a function to call when the call has ended
   */
  begin(call: CircuitCall): (end: SendEnd) => void {
    const keyVersion = this.#options.keyVersion();
    if (call.cause !== "retry") this.#retries = Math.min(MOST_RETRIES, this.#retries + RETRIES);
    const probed = this.#openFor(call).map(([scope]) => scope);
    if (probed.length > 0) this.#probe(probed);
    return (end) => this.#ended(call, end, this.#learnKey(call, end, keyVersion), probed);
  }

  /** A probe begins. It moves those of the other open circuits, so that together they cost no more than those of one circuit. */
  #probe(probed: readonly CircuitScope[]): void {
    const now = this.#now();
    for (const scope of probed) this.#change(scope, { until: now + PROBE_MS, probedAt: now, isAsked: false });
    for (const [scope, circuit] of this.#atIntervals()) {
      // A probe that has been due for long waits for a rare call. Half of the time is left to such calls.
      const part = circuit.until < now - DUE_MS ? 0.5 : 1;
      const until = Math.max(circuit.until, now + part * this.#intervalOf(circuit));
      if (circuit.probedAt === undefined) this.#change(scope, { until });
    }
  }

  /** @param probeOf the circuits of which the call was the probe */
  #ended(call: CircuitCall, end: SendEnd, kind: Result, probeOf: readonly CircuitScope[]): void {
    const forMs = end.slowDown?.forMs;
    const probed = probeOf.filter((scope) => this.#open.has(scope));
    const cause = this.#lastCalls.ended(call, kind);
    if (probed.length > 0) this.#probeEnded(probed, kind, forMs);
    const scope = cause !== undefined && CAUSES[cause].stops === "origin" ? "origin" : call.resource;
    const open = this.#open.get(scope);
    // A call that was sent before the circuit opened tells nothing new, unless the upstream names a time.
    const isNew = forMs !== undefined || this.#now() >= (open?.until ?? 0);
    const opens = cause !== undefined && isNew && (open === undefined || !probed.includes(scope));
    if (opens) this.#openAs(scope, cause, forMs);
    if (opens || probed.length > 0) this.changed();
  }

  /** Learns whether the upstream accepts our key. @returns how the call ended; `unknown` if an earlier key was refused */
  #learnKey({ query, resource, cause }: CircuitCall, end: SendEnd, keyVersion: number): Result {
    const kind = kindOf(end, resource);
    // `probeWanted` cannot repeat a request that is passed through.
    if (kind === "answered" && cause !== "bypass") this.#answered.set(query, true);
    if (kind !== "credentials") return kind;
    // A refusal of the previous key says nothing about this one.
    if (keyVersion !== this.#options.keyVersion()) return "unknown";
    this.#refusedKey = keyVersion;
    this.#unlogged++;
    this.#logRefused();
    return kind;
  }

  #probeEnded(probed: readonly CircuitScope[], kind: Result, forMs: number | undefined): void {
    for (const scope of probed) {
      const { cause = "failing" } = this.#open.get(scope) ?? {};
      // A refusal of the credentials is an answer, so it closes a circuit that opened for another cause.
      const isGone = kind === "answered" || (kind === "credentials" && cause !== "credentials");
      if (isGone) this.#set(scope, undefined);
      else if (kind === "unknown") this.#halfOpen(scope);
      else this.#openAs(scope, cause, forMs);
    }
    // The upstream is back, so the other circuits try at once.
    if (kind === "answered") for (const [scope] of this.#atIntervals()) this.#halfOpen(scope);
  }

  /** The open circuits that are closed by probes at intervals, not at a time that the upstream named. */
  #atIntervals(): (readonly [CircuitScope, OpenCircuit])[] {
    return [...this.#open].filter(([, { isAsked, cause }]) => !isAsked && cause !== "credentials");
  }

  #intervalOf(circuit: Pick<OpenCircuit, "cause" | "openedAt">): number {
    return probeIntervalMs(circuit, this.#now(), this.#options.config().windows);
  }

  /** @param forMs the time that the upstream named */
  #openAs(scope: CircuitScope, cause: CircuitCause, forMs: number | undefined): void {
    const { fraction, config } = this.#options;
    const now = this.#now();
    const before = this.#open.get(scope);
    const probedAt = before?.probedAt;
    const openedAt = before?.cause === cause ? before.openedAt : now;
    if (forMs !== undefined) {
      const asked = now + Math.ceil(Math.min(Math.max(forMs, SHORTEST_ASKED_MS), config().maxCoolOffMs));
      const longest = probedAt === undefined ? Math.max(asked, before?.until ?? 0) : asked;
      return this.#set(scope, { cause, openedAt, until: longest, isAsked: true });
    }
    // Intervals count from the start of the probe, which may have waited long for its answer.
    const from = probedAt === undefined ? now : probedAt + OTHERS_FIRST_MS * (1 + fraction());
    const next = Math.max(now, Math.ceil(from + this.#intervalOf({ cause, openedAt })));
    this.#set(scope, { cause, openedAt, until: next, isAsked: false });
  }

  /** The next call may be a probe. */
  #halfOpen(scope: CircuitScope): void {
    this.#change(scope, { until: this.#now(), isAsked: false });
  }

  /** Changes an open circuit. It has a probe on its way only if the change says so. */
  #change(scope: CircuitScope, change: Partial<OpenCircuit>): void {
    const circuit = this.#open.get(scope);
    if (circuit !== undefined) this.#set(scope, { ...circuit, probedAt: undefined, ...change });
  }

  /** Another replica has changed a circuit. */
  #receive(scope: CircuitScope, circuit: OpenCircuit | undefined): void {
    // Perhaps only the network of the other replica is broken.
    if (circuit?.cause === "unreachable" && !this.#lastCalls.isCutOff()) return;
    const laterMs = OTHERS_LATER_MS * (1 + this.#options.fraction());
    const own = circuit && shifted({ ...circuit, until: Math.max(0, circuit.until) + laterMs }, this.#now());
    this.#set(scope, own, false);
    this.changed();
  }

  /**
   * @param circuit `undefined`: it is closed
   * @param isOwn whether this process changes it, not another replica
   */
  #set(scope: CircuitScope, circuit: OpenCircuit | undefined, isOwn = true): void {
    const { origin, observer, shared } = this.#options;
    const what = `upstream ${circuitLabel(origin, scope)}`;
    if (circuit === undefined) {
      this.#lastCalls.forget(scope);
      this.#open.delete(scope);
      observer.backInOrder(what);
    } else {
      this.#open.set(scope, circuit);
      const resources = scope === "origin" ? resourcesOf(origin) : [scope];
      observer.outOfOrder({ what, cause: CAUSES[circuit.cause].says, meanwhile: MEANWHILE, resources });
    }
    // Another replica may have another key.
    if (isOwn && circuit?.cause !== "credentials")
      shared?.publish(scope, circuit && shifted(circuit, -this.#now()));
  }

  /** The next call is a probe of the open circuits, whatever their time. @returns the circuits that were open */
  tryNow(): readonly CircuitScope[] {
    const scopes = [...this.#open.keys()];
    for (const scope of scopes) this.#halfOpen(scope);
    if (scopes.length > 0) {
      this.changed();
      this.probeWanted();
    }
    return scopes;
  }

  /** The circuits that are not closed, the time since they opened, and the time until the next probe. */
  // oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
  overview() {
    const now = this.#now();
    return [...this.#open].map(([scope, { cause, openedAt, until, probedAt }]) => ({
      scope,
      state: now < until && probedAt === undefined ? ("open" as const) : ("half-open" as const),
      cause,
      sinceMs: now - openedAt,
      forMs: Math.max(0, until - now),
    }));
  }

  /** Takes one retry from the retry budget. @returns whether there was one */
  mayRetry(): boolean {
    if (this.#retries < 1) return false;
    this.#retries -= 1;
    return true;
  }

  /** A caller was refused because of a circuit. */
  refused(cause: CircuitCause): void {
    if (cause !== "credentials") return;
    const circuit = this.#open.get("origin");
    if (circuit === undefined || this.#now() < circuit.until || this.probeWanted()) return;
    // There is no question to repeat, so any question may be the probe.
    this.#answered.clear();
  }
}

const MEANWHILE =
  "Callers get cached answers, also stale ones if cache.staleIfError allows it. After a 429 or 503, others wait if their deadline " +
  "allows it. The rest is refused. From time to time one call tests whether the upstream is back.";
const CREDENTIALS_REFUSED =
  "The upstream refuses our credentials. The gateway tries again from time to time. Check UPSTREAM_PRIVATE_KEY or its file, UPSTREAM_CALLER_ID and this machine's clock.";
