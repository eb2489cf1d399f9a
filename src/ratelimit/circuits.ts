/**
 * The circuits of an origin in this process: which calls they stop, who probes, and what the other replicas hear.
 * The rules are in circuit-breaker.ts.
 */
import type { Resource } from "../interface/resources.ts";
import type { Cause, SendEnd } from "../types.ts";
import {
  type CircuitCause,
  type CircuitRules,
  type CircuitScope,
  close,
  createHealth,
  ended,
  type Health,
  type OpenCircuit,
  stateOf,
} from "./circuit-breaker.ts";

/**
 * Where replicas share their circuits. With Redis: a hash with one field for each scope, published when it changes,
 * and `SET NX PX` for the probe. Nothing may reject; without an answer each replica acts alone.
 */
export interface SharedCircuits {
  /** A circuit has opened, or closed (`undefined`). Also gives up the claim to its probe. */
  readonly publish: (scope: CircuitScope, circuit: CircuitNews | undefined) => void;
  readonly subscribe: (listener: (scope: CircuitScope, circuit: CircuitNews | undefined) => void) => void;
  /** @returns whether this replica may send the probe; nobody else may for so long */
  readonly claimProbe: (scope: CircuitScope, forMs: number) => Promise<boolean>;
}

/** An open circuit, told in durations: replicas have different clocks. */
export interface CircuitNews extends Pick<OpenCircuit, "cause" | "failedProbes" | "isAsked"> {
  readonly openForMs: number;
  readonly ageMs: number;
}

/** @returns circuits that no other replica shares */
export function unsharedCircuits(): SharedCircuits {
  return { publish: () => undefined, subscribe: () => undefined, claimProbe: async () => true };
}

/** A call as far as circuits are concerned. */
export interface CircuitCall {
  readonly resource: Resource;
  /** Tells questions apart. */
  readonly question: string;
  readonly cause: Cause;
}

/** What was known of a call when it departed. */
interface SentCall {
  /** The scopes whose probe it is. */
  readonly probeOf: readonly CircuitScope[];
  readonly keyVersion: number;
}

type Passage =
  | { readonly kind: "pass" }
  /** It may go, if `claim` says so. */
  | { readonly kind: "probe"; readonly scopes: readonly CircuitScope[] }
  /** It waits for the end of a pause that the upstream asked for, or of a probe. */
  | { readonly kind: "wait"; readonly until: number; readonly cause: CircuitCause }
  /** It is refused at once. */
  | { readonly kind: "refuse"; readonly until: number; readonly cause: CircuitCause };

export interface CircuitsOptions extends Omit<CircuitRules, "windows" | "maxCoolOffMs"> {
  readonly shared: SharedCircuits;
  readonly now: () => number;
  /** Changes when the upstream's credentials do. */
  readonly keyVersion: () => number;
  /** The credentials can be tried, and no caller asks a question that was answered before. */
  readonly probeWanted: () => void;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** A circuit may have opened; absent: it is closed. */
  readonly onState: (scope: CircuitScope, circuit: OpenCircuit | undefined) => void;
}

export interface Circuits {
  readonly passage: (call: CircuitCall) => Passage;
  /** Keeps other calls of this process from probing, while a permit is acquired. */
  readonly reserve: (scopes: readonly CircuitScope[]) => void;
  readonly unreserve: (scopes: readonly CircuitScope[]) => void;
  /** Claims the probe of half-open circuits for this replica. Never rejects. */
  readonly claim: (scopes: readonly CircuitScope[]) => Promise<boolean>;
  /** The claimed probe was not sent. */
  readonly unclaim: (scopes: readonly CircuitScope[]) => void;
  /** A call has ended. */
  readonly ended: (call: CircuitCall, end: SendEnd, sent: SentCall) => void;
  /** Takes one retry from the retry budget, if there is one. */
  readonly mayRetry: () => boolean;
  /** A call departs that is no retry: it adds to the retry budget. */
  readonly departed: () => void;
  /** A caller was refused because of a circuit. */
  readonly refused: (cause: CircuitCause) => void;
  readonly overview: () => readonly {
    readonly scope: CircuitScope;
    readonly state: "open" | "half-open";
    readonly cause: CircuitCause;
    /** How long ago it opened. */
    readonly sinceMs: number;
    readonly forMs: number;
  }[];
  /** Calls back when calls may go that could not, or the other way round. One listener. */
  readonly onChange: (listener: () => void) => void;
  readonly configure: (rules: Pick<CircuitRules, "windows" | "maxCoolOffMs">) => void;
}

/** A probe that has not ended by then is taken for lost. */
const PROBE_MS = 30_000;
/** Callers wait so long for the end of a probe: an upstream that is well again has answered by then. */
const PROBE_ANSWERED_MS = 1_000;
/** Retries are at most this part of all calls, */
const RETRIES = 0.1;
/** and at most so many are saved up. */
const MOST_RETRIES = 3;
const MOST_QUESTIONS = 1_000;
const LOG_EVERY_MS = 60_000;

/** What the circuits of an origin remember in this process. */
interface Memory {
  readonly health: Health;
  /** Until when a probe is taken for being in flight, here or at another replica. */
  readonly probing: Map<CircuitScope, number>;
  readonly answered: ReturnType<typeof createAnsweredQuestions>;
  /** The key that the upstream refused last. */
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
  const { health, probing } = memory;
  const { mayRetry, departed } = createRetryBudget();
  const log = createCredentialsLog(options);
  const report = (scope: CircuitScope): void => options.onState(scope, health.circuits.get(scope));
  const publish = (scope: CircuitScope): void => {
    shared.publish(scope, newsOf(health.circuits.get(scope), now()));
    report(scope);
  };
  shared.subscribe((scope, news) => {
    hear(memory, scope, news, now());
    report(scope);
    if (news?.cause === "credentials") memory.refusedKey = keyVersion();
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
    reserve: (scopes) => scopes.forEach((scope) => probing.set(scope, now() + PROBE_MS)),
    unreserve: (scopes) => scopes.forEach((scope) => probing.delete(scope)),
    async claim(scopes) {
      for (const scope of scopes) if (!(await shared.claimProbe(scope, PROBE_MS))) return false;
      return true;
    },
    unclaim(scopes) {
      for (const scope of scopes) probing.delete(scope);
      scopes.forEach(publish);
      memory.changed();
    },
    ended(call, end, sent) {
      const isRefused = end.status === 401 || end.status === 403;
      if (isRefused) log.call();
      const isKeyNew = sent.keyVersion !== keyVersion();
      const changed = learn(memory, call, end, { ...sent, isKeyNew }, now());
      changed.forEach(publish);
      if (changed.length > 0) memory.changed();
    },
    mayRetry,
    departed,
    refused(cause) {
      if (cause !== "credentials") return;
      log.caller();
      const isProbing = now() < (probing.get("origin") ?? 0);
      if (stateOf(health.circuits.get("origin"), now()) === "half-open" && !isProbing) probeWanted();
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
    probing: new Map(),
    answered: createAnsweredQuestions(),
    refusedKey: keyVersion(),
    rules: { ...initial, fraction },
    changed: () => undefined,
  };
}

/** Another replica has opened or closed a circuit. */
function hear(
  { health, probing }: Memory,
  scope: CircuitScope,
  news: CircuitNews | undefined,
  now: number,
): void {
  probing.delete(scope);
  if (news === undefined) close(health, scope);
  else health.circuits.set(scope, { ...news, openedAt: now - news.ageMs, until: now + news.openForMs });
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

/** Of the circuits of the origin and of the resource, the one that stops a call for longest decides. */
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
  { health, probing, answered }: Memory,
  scope: CircuitScope,
  call: CircuitCall,
  now: number,
): Passage {
  const circuit = health.circuits.get(scope);
  if (circuit === undefined) return PASS;
  const { cause, isAsked, until } = circuit;
  if (now < until) return { kind: isAsked ? "wait" : "refuse", until, cause };
  const probeUntil = probing.get(scope) ?? 0;
  if (now < probeUntil) {
    const answeredBy = probeUntil - PROBE_MS + PROBE_ANSWERED_MS;
    return { kind: "wait", until: now < answeredBy ? answeredBy : probeUntil, cause };
  }
  if (call.cause === "retry") return { kind: "refuse", until, cause };
  if (cause !== "credentials" || answered.mayProbe(call.question)) return { kind: "probe", scopes: [scope] };
  return { kind: "refuse", until: now + 1_000, cause };
}

/** @returns the scopes that the other replicas must hear of */
function learn(
  memory: Memory,
  { resource, question }: CircuitCall,
  end: SendEnd,
  { probeOf, isKeyNew, keyVersion }: SentCall & { readonly isKeyNew: boolean },
  now: number,
): readonly CircuitScope[] {
  const { status } = end;
  const isRefused = status === 401 || status === 403;
  for (const scope of probeOf) memory.probing.delete(scope);
  // A call that was signed with the key before says nothing of this one.
  if (isRefused && isKeyNew) return probeOf;
  if (isRefused) memory.refusedKey = keyVersion;
  if (typeof status === "number" && status < 500 && !isRefused) memory.answered.add(question);
  const changed = ended(memory.health, { resource, question, end, probeOf }, memory.rules, now);
  return [...new Set([...changed, ...probeOf])];
}

function newsOf(circuit: OpenCircuit | undefined, now: number): CircuitNews | undefined {
  if (circuit === undefined) return undefined;
  const { cause, failedProbes, isAsked, until, openedAt } = circuit;
  return { cause, failedProbes, isAsked, openForMs: Math.max(0, until - now), ageMs: now - openedAt };
}

/** Retries are a tenth of all calls at most; a few are saved up. */
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

/** Questions that the upstream has answered: a refusal of one of them is about the credentials, not the question. */
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
    // As long as nothing was ever answered, any question is as good as another.
    mayProbe: (question) => questions.size === 0 || questions.has(question),
  };
}

/** Tells the operators of refused credentials: at once, then once a minute with the counts. */
function createCredentialsLog({ now, warn }: Pick<CircuitsOptions, "now" | "warn">): {
  readonly call: () => void;
  readonly caller: () => void;
} {
  let [refusedCalls, refusedCallers, loggedAt] = [0, 0, Number.NEGATIVE_INFINITY];
  function log(): void {
    if (now() - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now();
    warn(
      "The upstream refuses our credentials. The gateway tries again from time to time. Check upstream.privateKey, upstream.callerId and this machine's clock.",
      { refusedCalls, refusedCallers },
    );
    [refusedCalls, refusedCallers] = [0, 0];
  }
  return {
    call: () => (refusedCalls++, log()),
    caller: () => (refusedCallers++, log()),
  };
}
