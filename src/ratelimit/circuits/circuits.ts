/**
 * The circuits of an origin in this process: which calls they stop, which call is the probe, and what is published to the
 * other replicas. What opens a circuit: opening.ts. When the next probe goes: probes.ts.
 */
import type { Resource } from "../../interface/resources.ts";
import type { Cause } from "../../telemetry/events.ts";
import type { SendEnd } from "../throttled.ts";
import {
  beginProbe,
  type CircuitCause,
  type CircuitRules,
  type CircuitScope,
  close,
  createHealth,
  ended,
  halfOpen,
  type Health,
  type OpenCircuit,
  stateOf,
} from "./opening.ts";

/** The circuits that replicas share (redis-circuits.ts). Nothing rejects: without Redis, each replica acts alone. */
export interface SharedCircuits {
  /** Publishes a change of a circuit. `undefined`: it is closed. */
  readonly publish: (scope: CircuitScope, circuit: CircuitReport | undefined) => void;
  readonly subscribe: (listener: (scope: CircuitScope, circuit: CircuitReport | undefined) => void) => void;
}

/** An open circuit in durations, because replicas have different clocks. */
export interface CircuitReport extends Pick<OpenCircuit, "cause" | "failedProbes" | "isAsked"> {
  readonly openForMs: number;
  readonly ageMs: number;
  /** Time since the start of the probe that has not ended yet. */
  readonly probingForMs?: number | undefined;
}

/** @returns circuits that no other replica shares */
export function unsharedCircuits(): SharedCircuits {
  return { publish: () => undefined, subscribe: () => undefined };
}

/** A call as far as circuits are concerned. */
export interface CircuitCall {
  readonly resource: Resource;
  /** Identifies the question. */
  readonly question: string;
  readonly cause: Cause;
}

/** Facts from the departure of a call. */
interface SentCall {
  /** The scopes of which this call is the probe. */
  readonly probeOf: readonly CircuitScope[];
  readonly keyVersion: number;
}

type Passage =
  | { readonly kind: "pass" }
  /** It may go, as the probe. */
  | { readonly kind: "probe"; readonly scopes: readonly CircuitScope[] }
  /** It waits for the end of a probe, or of a pause that the upstream asked for. */
  | { readonly kind: "wait"; readonly until: number; readonly cause: CircuitCause }
  /** It is refused immediately. */
  | { readonly kind: "refuse"; readonly until: number; readonly cause: CircuitCause };

export interface CircuitsOptions extends Omit<CircuitRules, "windows" | "maxCoolOffMs"> {
  readonly shared: SharedCircuits;
  readonly now: () => number;
  /** Changes when the upstream's credentials do. */
  readonly keyVersion: () => number;
  /** Called when the credentials may be tried again and no caller asks a question that was answered before. */
  readonly probeWanted: () => void;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** Called when a circuit may have changed. Without `circuit`, it is closed. */
  readonly onState: (scope: CircuitScope, circuit: OpenCircuit | undefined) => void;
}

export interface Circuits {
  readonly passage: (call: CircuitCall) => Passage;
  /** A call departs. @returns the scopes of which it is the probe */
  readonly begin: (call: CircuitCall) => readonly CircuitScope[];
  /** A call has ended. */
  readonly ended: (call: CircuitCall, end: SendEnd, sent: SentCall) => void;
  /** Takes one retry from the retry budget. @returns whether there was one */
  readonly mayRetry: () => boolean;
  /** A call departs that is not a retry. It adds to the retry budget. */
  readonly departed: () => void;
  /** A caller was refused because of a circuit. */
  readonly refused: (cause: CircuitCause) => void;
  readonly overview: () => readonly {
    readonly scope: CircuitScope;
    readonly state: "open" | "half-open";
    readonly cause: CircuitCause;
    /** Time since it opened. */
    readonly sinceMs: number;
    readonly forMs: number;
  }[];
  /** The next call is a probe of the open circuits, whatever their time. @returns the circuits that were open */
  readonly tryNow: () => readonly CircuitScope[];
  /** Calls back when the circuits have changed. One listener. */
  readonly onChange: (listener: () => void) => void;
  readonly configure: (rules: Pick<CircuitRules, "windows" | "maxCoolOffMs">) => void;
}

/** How long callers wait for the end of a probe. An upstream that works again answers in this time. */
const PROBE_ANSWERED_MS = 1_000;
/** Retries are at most this part of all calls. */
const RETRIES = 0.1;
/** Most retries that are saved for later. */
const MOST_RETRIES = 3;
const MOST_QUESTIONS = 1_000;
const LOG_EVERY_MS = 60_000;
/** The other replicas let the one that opened a circuit send the probe. */
const OTHERS_LATER_MS = 500;

/** What the circuits of an origin remember in this process. */
interface Memory {
  readonly health: Health;
  readonly answered: ReturnType<typeof createAnsweredQuestions>;
  /** The version of the key that the upstream refused last. */
  refusedKey: number;
  rules: CircuitRules;
  changed: () => void;
}

export function createCircuits(
  options: CircuitsOptions,
  initial: Pick<CircuitRules, "windows" | "maxCoolOffMs">,
): Circuits {
  const { shared, now, keyVersion, probeWanted } = options;
  const memory = createMemory(options, initial);
  const { health } = memory;
  const log = createCredentialsLog(options);
  const notify = (scope: CircuitScope): void => options.onState(scope, health.circuits.get(scope));
  const publish = (scope: CircuitScope): void => {
    shared.publish(scope, reportOf(health.circuits.get(scope), now()));
    notify(scope);
  };
  const publishAll = (scopes: readonly CircuitScope[]): void => {
    scopes.forEach(publish);
    if (scopes.length > 0) memory.changed();
  };
  shared.subscribe((scope, report) => {
    receive(memory, scope, report, now());
    notify(scope);
    if (report?.cause === "credentials") memory.refusedKey = keyVersion();
    memory.changed();
  });

  return {
    passage(call) {
      if (health.circuits.get("origin")?.cause === "credentials" && keyVersion() !== memory.refusedKey) {
        close(health, "origin");
        publish("origin");
      }
      return passageIn(memory, call, now());
    },
    begin(call) {
      const passage = passageIn(memory, call, now());
      if (passage.kind !== "probe") return [];
      beginProbe(health, passage.scopes, now());
      passage.scopes.forEach(publish);
      return passage.scopes;
    },
    ended(call, end, sent) {
      const isKeyNew = sent.keyVersion !== keyVersion();
      if (isRefusal(end) && !isKeyNew) log.call();
      publishAll(record(memory, call, end, { ...sent, isKeyNew }, now()));
    },
    ...createRetryBudget(),
    refused(cause) {
      if (cause === "credentials") log.caller();
      if (cause === "credentials" && isHalfOpen(health.circuits.get("origin"), now())) probeWanted();
    },
    tryNow() {
      const scopes = [...health.circuits.keys()];
      for (const scope of scopes) halfOpen(health, scope, now());
      publishAll(scopes);
      if (scopes.length > 0) probeWanted();
      return scopes;
    },
    overview: () => overviewOf(health, now()),
    onChange: (listener) => void (memory.changed = listener),
    configure: (next) => void (memory.rules = { ...memory.rules, ...next }),
  };
}

function createMemory(
  { keyVersion, fraction }: CircuitsOptions,
  initial: Pick<CircuitRules, "windows" | "maxCoolOffMs">,
): Memory {
  return {
    health: createHealth(),
    answered: createAnsweredQuestions(),
    refusedKey: keyVersion(),
    rules: { ...initial, fraction },
    changed: () => undefined,
  };
}

/** Another replica has opened or closed a circuit. */
function receive(
  { health, rules }: Memory,
  scope: CircuitScope,
  report: CircuitReport | undefined,
  now: number,
): void {
  if (report === undefined) return close(health, scope);
  const { openForMs, ageMs, probingForMs, ...circuit } = report;
  const laterMs = openForMs > 0 ? OTHERS_LATER_MS * (1 + rules.fraction()) : 0;
  const probed = probingForMs === undefined ? {} : { probedAt: now - probingForMs };
  health.circuits.set(scope, {
    ...circuit,
    openedAt: now - ageMs,
    until: now + openForMs + laterMs,
    ...probed,
  });
}

function overviewOf({ circuits }: Health, now: number): ReturnType<Circuits["overview"]> {
  return [...circuits].map(([scope, circuit]) => ({
    scope,
    state: stateOf(circuit, now) === "open" ? "open" : "half-open",
    cause: circuit.cause,
    sinceMs: now - circuit.openedAt,
    forMs: Math.max(0, circuit.until - now),
  }));
}

/** The circuits of the origin and of the resource both apply. The one that stops the call for longer decides. */
function passageIn(memory: Memory, call: CircuitCall, now: number): Passage {
  const passages = (["origin", call.resource] as const).map((scope) => passageOf(memory, scope, call, now));
  for (const kind of ["refuse", "wait"] as const) {
    const stopped = passages.flatMap((passage) => (passage.kind === kind ? [passage] : []));
    if (stopped.length > 0) return stopped.reduce(later);
  }
  const scopes = passages.flatMap((passage) => (passage.kind === "probe" ? passage.scopes : []));
  return scopes.length > 0 ? { kind: "probe", scopes } : PASS;
}

function passageOf(
  { health, answered }: Memory,
  scope: CircuitScope,
  call: CircuitCall,
  now: number,
): Passage {
  const circuit = health.circuits.get(scope);
  if (circuit === undefined) return PASS;
  const { cause, isAsked, until, probedAt } = circuit;
  const answeredBy = probedAt === undefined ? now : probedAt + PROBE_ANSWERED_MS;
  if (now < until && now < answeredBy) return { kind: "wait", until: answeredBy, cause };
  if (now < until) return { kind: isAsked ? "wait" : "refuse", until, cause };
  if (call.cause === "retry") return { kind: "refuse", until, cause };
  if (cause !== "credentials" || answered.mayProbe(call.question)) return { kind: "probe", scopes: [scope] };
  return { kind: "refuse", until: now + 1_000, cause };
}

function isHalfOpen(circuit: OpenCircuit | undefined, now: number): boolean {
  return circuit !== undefined && now >= circuit.until;
}

function isRefusal({ status }: SendEnd): boolean {
  return status === 401 || status === 403;
}

/** Records the end of a call. @returns the scopes to publish to the other replicas */
function record(
  memory: Memory,
  { resource, question }: CircuitCall,
  end: SendEnd,
  { probeOf, isKeyNew, keyVersion }: SentCall & { readonly isKeyNew: boolean },
  now: number,
): readonly CircuitScope[] {
  const { status } = end;
  const isRefused = isRefusal(end);
  // The call was signed with the previous key, so it says nothing about this one.
  const ending = isRefused && isKeyNew ? ({ ...end, status: "given-up" } as const) : end;
  if (isRefused && !isKeyNew) memory.refusedKey = keyVersion;
  if (typeof status === "number" && status < 500 && !isRefused) memory.answered.add(question);
  return ended(memory.health, { resource, question, end: ending, probeOf }, memory.rules, now);
}

function reportOf(circuit: OpenCircuit | undefined, now: number): CircuitReport | undefined {
  if (circuit === undefined) return undefined;
  const { cause, failedProbes, isAsked, until, openedAt, probedAt } = circuit;
  const probing = probedAt === undefined ? {} : { probingForMs: now - probedAt };
  return {
    cause,
    failedProbes,
    isAsked,
    openForMs: Math.max(0, until - now),
    ageMs: now - openedAt,
    ...probing,
  };
}

/** Retries are at most a tenth of all calls, apart from those with new credentials. A few are saved. */
function createRetryBudget(): Pick<Circuits, "mayRetry" | "departed"> {
  let retries = MOST_RETRIES;
  return {
    mayRetry() {
      if (retries < 1) return false;
      retries -= 1;
      return true;
    },
    departed: () => void (retries = Math.min(MOST_RETRIES, retries + RETRIES)),
  };
}

const PASS: Passage = { kind: "pass" };

type Stopped = Extract<Passage, { readonly until: number }>;

function later(a: Stopped, b: Stopped): Stopped {
  return b.until > a.until ? b : a;
}

/** Questions that the upstream has answered. If it refuses one of them, the credentials are the cause, not the question. */
function createAnsweredQuestions(): {
  readonly add: (question: string) => void;
  readonly mayProbe: (question: string) => boolean;
} {
  const questions = new Set<string>();
  return {
    add(question) {
      questions.delete(question);
      questions.add(question);
      if (questions.size > MOST_QUESTIONS) questions.delete(questions.values().next().value ?? "");
    },
    // Before the first answer, every question may be the probe.
    mayProbe: (question) => questions.size === 0 || questions.has(question),
  };
}

/** Logs refused credentials: immediately, then once a minute with the counts. */
function createCredentialsLog({ now, warn }: Pick<CircuitsOptions, "now" | "warn">): {
  readonly call: () => void;
  readonly caller: () => void;
} {
  let [refusedCalls, refusedCallers, loggedAt] = [0, 0, Number.NEGATIVE_INFINITY];
  function log(): void {
    if (now() - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now();
    warn(
      "The upstream refuses our credentials. The gateway tries again from time to time. Check UPSTREAM_PRIVATE_KEY or its file, UPSTREAM_CALLER_ID and this machine's clock.",
      { refusedCalls, refusedCallers },
    );
    [refusedCalls, refusedCallers] = [0, 0];
  }
  return {
    call: () => (refusedCalls++, log()),
    caller: () => (refusedCallers++, log()),
  };
}
