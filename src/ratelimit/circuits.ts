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

export type Passage =
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
}

export interface Circuits {
  readonly passage: (call: CircuitCall) => Passage;
  /** Claims the probe of half-open circuits. Never rejects. */
  readonly claim: (scopes: readonly CircuitScope[]) => Promise<boolean>;
  /** The claimed probe was not sent. */
  readonly unclaim: (scopes: readonly CircuitScope[]) => void;
  /** A call has ended. */
  readonly ended: (
    call: CircuitCall,
    end: SendEnd,
    sent: { readonly probeOf: readonly CircuitScope[]; readonly keyVersion: number },
  ) => void;
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
    readonly forMs: number;
  }[];
  /** Calls back when calls may go that could not, or the other way round. One listener. */
  readonly onChange: (listener: () => void) => void;
  readonly configure: (rules: Pick<CircuitRules, "windows" | "maxCoolOffMs">) => void;
}

/** A probe that has not ended by then is taken for lost. */
const PROBE_MS = 30_000;
/** Retries are at most this part of all calls, */
const RETRIES = 0.1;
/** and at most so many are saved up. */
const MOST_RETRIES = 3;
const MOST_QUESTIONS = 1_000;
const LOG_EVERY_MS = 60_000;

export function createCircuits(
  options: CircuitsOptions,
  initial: Pick<CircuitRules, "windows" | "maxCoolOffMs">,
): Circuits {
  const { shared, now, keyVersion } = options;
  const health = createHealth();
  const probing = new Map<CircuitScope, number>();
  const answered = createAnsweredQuestions();
  const log = createCredentialsLog(options);
  let rules: CircuitRules = { ...initial, fraction: options.fraction };
  let refusedKey = keyVersion();
  let retries = MOST_RETRIES;
  let listener = (): void => undefined;

  shared.subscribe((scope, news) => {
    probing.delete(scope);
    if (news === undefined) close(health, scope);
    else health.circuits.set(scope, { ...news, openedAt: now() - news.ageMs, until: now() + news.openForMs });
    if (news?.cause === "credentials") refusedKey = keyVersion();
    listener();
  });
  const publish = (scope: CircuitScope): void => {
    const circuit = health.circuits.get(scope);
    shared.publish(
      scope,
      circuit && {
        cause: circuit.cause,
        failedProbes: circuit.failedProbes,
        isAsked: circuit.isAsked,
        openForMs: Math.max(0, circuit.until - now()),
        ageMs: now() - circuit.openedAt,
      },
    );
  };

  function passageOf(scope: CircuitScope, call: CircuitCall): Passage {
    const circuit = health.circuits.get(scope);
    if (circuit === undefined) return PASS;
    const { cause, isAsked, until } = circuit;
    if (cause === "credentials" && keyVersion() !== refusedKey) {
      close(health, scope);
      publish(scope);
      return PASS;
    }
    if (stateOf(circuit, now()) === "open") return { kind: isAsked ? "wait" : "refuse", until, cause };
    const probeUntil = probing.get(scope) ?? 0;
    if (now() < probeUntil) return { kind: "wait", until: probeUntil, cause };
    if (call.cause === "retry") return { kind: "refuse", until, cause };
    if (cause !== "credentials" || answered.mayProbe(call.question))
      return { kind: "probe", scopes: [scope] };
    return { kind: "refuse", until: now() + 1_000, cause };
  }

  return {
    passage(call) {
      const [origin, resource] = [passageOf("origin", call), passageOf(call.resource, call)];
      for (const kind of ["refuse", "wait"] as const) {
        const stopped = [origin, resource].flatMap((passage) => (passage.kind === kind ? [passage] : []));
        if (stopped.length > 0) return stopped.reduce(later);
      }
      const scopes = [origin, resource].flatMap((passage) =>
        passage.kind === "probe" ? passage.scopes : [],
      );
      return scopes.length > 0 ? { kind: "probe", scopes } : PASS;
    },
    async claim(scopes) {
      for (const scope of scopes) probing.set(scope, now() + PROBE_MS);
      for (const scope of scopes) if (!(await shared.claimProbe(scope, PROBE_MS))) return false;
      return true;
    },
    unclaim(scopes) {
      for (const scope of scopes) {
        probing.delete(scope);
        publish(scope);
      }
      listener();
    },
    ended({ resource, question }, end, { probeOf, keyVersion: signedWith }) {
      const { status } = end;
      const isRefused = status === 401 || status === 403;
      if (typeof status === "number" && status < 500 && !isRefused) answered.add(question);
      for (const scope of probeOf) probing.delete(scope);
      // A call that was signed with the key before says nothing of this one.
      if (isRefused && signedWith !== keyVersion()) {
        for (const scope of probeOf) publish(scope);
        return listener();
      }
      if (isRefused) {
        refusedKey = signedWith;
        log.call();
      }
      const changed = ended(health, { resource, question, end, probeOf }, rules, now());
      changed.forEach(publish);
      if (changed.length > 0 || probeOf.length > 0) listener();
    },
    mayRetry() {
      if (retries < 1) return false;
      retries -= 1;
      return true;
    },
    departed: () => void (retries = Math.min(MOST_RETRIES, retries + RETRIES)),
    refused(cause) {
      if (cause !== "credentials") return;
      log.caller();
      const circuit = health.circuits.get("origin");
      if (stateOf(circuit, now()) === "half-open" && now() >= (probing.get("origin") ?? 0))
        options.probeWanted();
    },
    overview: () =>
      [...health.circuits].map(([scope, circuit]) => ({
        scope,
        state: stateOf(circuit, now()) === "open" ? "open" : "half-open",
        cause: circuit.cause,
        forMs: Math.max(0, circuit.until - now()),
      })),
    onChange: (change) => void (listener = change),
    configure: (next) => void (rules = { ...next, fraction: options.fraction }),
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
      "The upstream refuses our credentials. It is asked again now and then. Check upstream.privateKey, upstream.callerId and this machine's clock.",
      { refusedCalls, refusedCallers },
    );
    [refusedCalls, refusedCallers] = [0, 0];
  }
  return {
    call: () => (refusedCalls++, log()),
    caller: () => (refusedCallers++, log()),
  };
}
