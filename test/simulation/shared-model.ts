/**
 * The shared budget as the scripts in src/budget/lua keep it, in this process and in virtual time: the same
 * rules, put together from the arbiter, which test/property/budget-script.test.ts holds to the scripts.
 */
import {
  expect,
  giveBack,
  isOverShare,
  type Standing,
  settle,
  type Terms,
} from "../../src/ratelimit/arbiter.ts";
import type { Circuit } from "../../src/ratelimit/circuit.ts";
import { appIn } from "../../src/ratelimit/mirror.ts";
import { SILENT_MS } from "../../src/ratelimit/shared-allowance.ts";
import type {
  Asker,
  EndReport,
  Joined,
  KnownSend,
  LookReply,
  News,
  SharedApp,
  SharedCircuit,
  TakeReply,
  TakeRequest,
} from "../../src/ratelimit/shared-budget.ts";
import { longestMs } from "../../src/ratelimit/terms.ts";
import { slackOf } from "../../src/ratelimit/others.ts";
import { noPlaces, spentIn, takePlace, type Places, type Window } from "../../src/ratelimit/windows.ts";
import { PRIORITIES } from "../../src/types.ts";
import { type Heard, readReplicas } from "./heard.ts";

const GRACE_MS = 50;
const MOST_LINES = 500;

interface AppMemory {
  tag: number;
  askedAt: number;
  borrowedAt: number;
  readonly ownIds: Set<string>;
  /** The places of its sends: see `standingOf`. */
  all: Places;
  own: Places;
}

type NewLine = { readonly id: string; readonly at: number } & (
  | { readonly kind: "sent"; readonly isOwn: boolean }
  | { readonly kind: "known" }
  | { readonly kind: "end"; readonly isUnsent: boolean }
);
type Line = NewLine & { readonly entry: number };

/** What is kept; what is left of it after a restart is for the test to say. */
export interface Memory {
  gen: string;
  run: number;
  /** When this generation began. */
  begun: number;
  seq: number;
  latest: number;
  tag: number;
  refused: number;
  entries: number;
  readonly sends: Map<string, number>;
  readonly apps: Map<string, AppMemory>;
  readonly circuits: Map<SharedCircuit["scope"], Circuit>;
  readonly replicas: Map<string, Heard>;
  readonly ledger: Line[];
  /** The places of the sends, or nothing while they have yet to be put together: see `standingOf`. */
  places: Places | undefined;
}

export interface ModelOptions {
  /** The server's own clock. */
  readonly now: () => number;
  readonly replicas: number;
  readonly absentForMs: number;
  /** Hears what is told to all replicas. */
  readonly tell: (news: News) => void;
}

type Bring = Pick<Joined, "gen" | "seq" | "entry">;

/** What a replica with these terms asks of it. */
export interface SharedModel {
  readonly take: (terms: Terms, request: TakeRequest) => TakeReply;
  readonly settle: (
    terms: Terms,
    asker: Asker,
    ends: readonly EndReport[],
  ) => { readonly kind: "lost" } | { readonly kind: "settled"; readonly circuits: readonly SharedCircuit[] };
  readonly look: (terms: Terms, asker: Asker, after: string) => LookReply;
  /** Joining takes two steps: to bring what is known, and to read what there is. */
  readonly bring: (
    replica: string,
    known: { readonly sends: readonly KnownSend[]; readonly others: readonly string[] },
  ) => Bring;
  readonly read: () => Joined["sends"];
  readonly leave: (asker: Asker) => void;
  readonly snapshot: () => Memory;
  /** The server starts anew, with this left of its memory. */
  readonly restart: (left: Memory) => void;
}

export function emptyMemory(): Memory {
  return {
    gen: "",
    run: 0,
    begun: Number.NEGATIVE_INFINITY,
    seq: 0,
    latest: Number.NEGATIVE_INFINITY,
    tag: 0,
    refused: 0,
    entries: 0,
    sends: new Map(),
    apps: new Map(),
    circuits: new Map(),
    replicas: new Map(),
    ledger: [],
    places: undefined,
  };
}

export function createSharedModel(options: ModelOptions): SharedModel {
  let memory = emptyMemory();
  let run = 0;
  const { tell } = options;

  function readClock(): number {
    memory.latest = Math.max(memory.latest, options.now());
    return memory.latest;
  }

  const isJoined = ({ gen }: Asker): boolean => memory.gen !== "" && gen === memory.gen && memory.run === run;

  function hear({ replica, known, queued }: Asker, now: number, wait: Heard["wait"]): void {
    const before = memory.replicas.get(replica)?.queued ?? [];
    memory.replicas.set(replica, { heardAt: now, known, wait, queued: queued ?? before });
  }

  const others = (terms: Terms, asker: Asker, now: number) =>
    readReplicas(
      memory.replicas,
      asker,
      now,
      { ...options, seq: memory.seq, begun: memory.begun, slack: slackOf(terms) },
      terms,
    );

  function circuitsAt(now: number): SharedCircuit[] {
    return [...memory.circuits].map(([scope, { cause, coolOffMs, openUntil, probe, probeUntil }]) => ({
      scope,
      cause,
      coolOffMs,
      openForMs: openUntil - now,
      probe: probe ?? "",
      probeForMs: probeUntil - now,
    }));
  }

  function appsAt(now: number): SharedApp[] {
    return [...memory.apps].flatMap(([app, { askedAt, borrowedAt }]) =>
      askedAt === Number.NEGATIVE_INFINITY
        ? []
        : [{ app, askedMs: now - askedAt, borrowedMs: now - borrowedAt }],
    );
  }

  function addLine(line: NewLine): void {
    memory.ledger.push({ ...line, entry: ++memory.entries });
    if (memory.ledger.length > 4_000) memory.ledger.splice(0, 2_000);
  }

  function take(terms: Terms, request: TakeRequest): TakeReply {
    const now = readClock();
    if (!isJoined(request)) return { kind: "lost" };
    const { live, liveCount, silentCount, held, apart, oldest, queued } = others(terms, request, now);
    const slack = slackOf(terms);
    for (const { app } of request.wishes) memoryOf(memory, app).askedAt = now;
    const standing = standingOf(memory, terms, now);
    const ranked = request.wishes.map((wish, index) => ({
      wish,
      index,
      rank: PRIORITIES.indexOf(wish.priority),
      tag: Math.max(memory.tag, memoryOf(memory, wish.app).tag),
    }));
    ranked.sort((a, b) => a.rank - b.rank || a.tag - b.tag || a.index - b.index);
    const [first] = ranked;
    if (first === undefined) throw new Error("nobody asks");

    const wait = (at: number, why: "place" | "news"): TakeReply => {
      hear(request, now, { at, rank: first.rank, tag: first.tag });
      return { kind: "wait", forMs: at - now, why, apps: appsAt(now), live: liveCount, held: apart, queued };
    };
    const known = Math.min(oldest ?? memory.seq, request.known);
    if (!request.anyway && liveCount + silentCount > 1 && memory.seq - known >= slack)
      return wait(now + request.catchUpMs, "news");

    const limitOf = (window: Window): number => {
      const absent = held[terms.windows.indexOf(window)] ?? 0;
      const { limit } = window;
      return absent === 0 ? limit : limit - absent * Math.floor(limit * request.share) - slack;
    };
    const isOthersTurn = ({ rank, tag }: (typeof ranked)[number]): boolean => {
      let before = 0;
      for (const [name, { at, rank: theirs, tag: their }] of live) {
        const isDue = at > 0 && at <= now && now <= at + GRACE_MS;
        if (name !== request.replica && isDue && (theirs < rank || (theirs === rank && their < tag)))
          before++;
      }
      if (before === 0) return false;
      return terms.windows.some(
        (window) => limitOf(window) - spentIn(standing.places, window.windowMs, now) <= before,
      );
    };
    let earliest = Number.POSITIVE_INFINITY;
    for (const candidate of ranked) {
      let { at } = expect(standing, terms, candidate.wish, { ahead: 0, ownAhead: 0 }, now, limitOf);
      // "Never", while something is held back for others.
      if (at === Number.POSITIVE_INFINITY) at = now + SILENT_MS;
      if (at <= now && isOthersTurn(candidate)) at = now + GRACE_MS;
      if (request.anyway || at <= now) {
        const granted = grant(terms, request.id, candidate, standing, now);
        hear(request, now, undefined);
        return { kind: "granted", index: candidate.index, ...granted, live: liveCount, held: apart, queued };
      }
      earliest = Math.min(earliest, at);
    }
    return wait(earliest, "place");
  }

  function grant(
    terms: Terms,
    bare: string,
    { wish, tag }: { readonly wish: TakeRequest["wishes"][number]; readonly tag: number },
    standing: Standing,
    now: number,
  ): { id: string; seq: number; isOwn: boolean } {
    const id = `${bare}@${wish.app}`;
    const until = now + terms.leaseMs;
    const app = memoryOf(memory, wish.app);
    const isOwn = !isOverShare(standing, terms, wish.app, now);
    if (isOwn) {
      app.ownIds.add(id);
      takePlace(app.own, id, until);
    } else app.borrowedAt = now;
    takePlace(app.all, id, until);
    takePlace(standing.places, id, until);
    memory.sends.set(id, until);
    memory.tag = tag;
    app.tag = tag + 1 / (terms.apps.get(wish.app)?.weight ?? 1);
    for (const scope of ["origin", wish.resource] as const) {
      const circuit = memory.circuits.get(scope);
      if (circuit !== undefined) [circuit.probe, circuit.probeUntil] = [id, until];
    }
    const seq = ++memory.seq;
    if (seq % 64 === 0) forgetOld(memory, now - keptFor(terms));
    addLine({ kind: "sent", id, at: now, isOwn });
    tell({ kind: "sent", seq, id, isOwn, ageMs: -terms.leaseMs });
    return { id, seq, isOwn };
  }

  return {
    take,
    settle(terms, asker, ends) {
      const now = readClock();
      if (!isJoined(asker)) return { kind: "lost" };
      for (const { id, app, resource, isUnsent, isAnswered, slowDown, sinceArrivalMs, durationMs } of ends) {
        const arrivedAt = now - sinceArrivalMs;
        const isKnown = memory.sends.has(id);
        const { ownIds } = memoryOf(memory, app);
        const standing = standingOf(memory, terms, now);
        const isOnItsWay = standing.places.onTheirWay.has(id);
        if (isUnsent) {
          giveBack(standing, { id, app });
          memory.sends.delete(id);
          ownIds.delete(id);
        } else {
          const end = { status: isAnswered ? 200 : ("reset" as const), arrivedAfterMs: 0, durationMs };
          settle(
            standing,
            terms,
            { id, app, resource },
            { end: { ...end, ...(slowDown && { slowDown }) }, arrivedAt },
            now,
          );
          memory.refused = standing.refusedInARow;
          if (isKnown) memory.sends.set(id, arrivedAt);
        }
        if (isKnown && !isOnItsWay) memory.places = undefined;
        if (isKnown) addLine({ kind: "end", id, at: arrivedAt, isUnsent });
        tell({ kind: "settled", id, ageMs: sinceArrivalMs, isUnsent });
      }
      tell({ kind: "circuits", circuits: circuitsAt(now) });
      return { kind: "settled", circuits: circuitsAt(now) };
    },
    look(terms, asker, after) {
      const now = readClock();
      if (!isJoined(asker)) return { kind: "lost" };
      const lines = linesAfter(memory.ledger, Number(after.split("-")[0]));
      const { live, liveCount, apart, queued } = others(terms, asker, now);
      hear(asker, now, live.get(asker.replica));
      return {
        kind: "news",
        seq: memory.seq,
        news: lines.map((line): News => {
          const { id, at } = line;
          if (line.kind === "end") return { kind: "settled", id, ageMs: now - at, isUnsent: line.isUnsent };
          const untilMs = line.kind === "sent" ? terms.leaseMs : 0;
          const isOwn = line.kind === "sent" && line.isOwn;
          return { kind: "sent", id, isOwn, ageMs: now - at - untilMs, seq: undefined };
        }),
        entry: `${lines.at(-1)?.entry ?? Number(after.split("-")[0])}-0`,
        isAll: lines.length < MOST_LINES,
        circuits: circuitsAt(now),
        apps: appsAt(now),
        live: liveCount,
        held: apart,
        queued,
        replicas: [...memory.replicas.keys()],
      };
    },
    bring(replica, { sends, others: known }) {
      const now = readClock();
      if (memory.gen === "" || memory.run !== run) {
        memory.gen = `${now}.${replica}`;
        memory.begun = now;
        memory.run = run;
        const absent = { heardAt: now - SILENT_MS - 1, known: 0, wait: undefined, queued: [], isLost: true };
        for (const name of memory.replicas.keys()) memory.replicas.set(name, absent);
        for (const name of known) if (name !== replica) memory.replicas.set(name, absent);
        tell({ kind: "generation", gen: memory.gen });
      }
      for (const { id, ageMs, late } of sends) {
        const at = now - ageMs;
        const before = memory.sends.get(id);
        memory.sends.set(id, Math.max(at, before ?? at));
        if (before !== undefined) continue;
        const seq = ++memory.seq;
        if (late === undefined) addLine({ kind: "known", id, at });
        else {
          addLine({ kind: "sent", id, at: now - late.sentMs, isOwn: false });
          if (late.end !== undefined) addLine({ kind: "end", id, at, isUnsent: false });
        }
        tell({ kind: "sent", seq, id, ageMs, isOwn: false });
      }
      memory.places = undefined;
      memory.replicas.set(replica, { heardAt: now - SILENT_MS - 1, known: 0, wait: undefined, queued: [] });
      return { gen: memory.gen, seq: memory.seq, entry: `${memory.entries}-0` };
    },
    read() {
      const now = readClock();
      return [...memory.sends].map(([id, at]) => ({
        id,
        ageMs: now - at,
        isOwn: memoryOf(memory, appIn(id)).ownIds.has(id),
      }));
    },
    leave(asker) {
      if (!isJoined(asker)) return;
      memory.replicas.delete(asker.replica);
      tell({ kind: "changed" });
    },
    snapshot: () => copyOf(memory),
    restart(left) {
      memory = copyOf(left);
      run++;
    },
  };
}

function memoryOf({ apps }: Memory, app: string): AppMemory {
  let found = apps.get(app);
  if (found === undefined) {
    const never = Number.NEGATIVE_INFINITY;
    found = {
      tag: 0,
      askedAt: never,
      borrowedAt: never,
      ownIds: new Set(),
      all: noPlaces(),
      own: noPlaces(),
    };
    apps.set(app, found);
  }
  return found;
}

/** Two windows: what apps took in the one before says what they are likely to want. */
function keptFor(terms: Terms): number {
  return 2 * longestMs(terms) + terms.leaseMs + 1;
}

function forgetOld({ sends, apps }: Memory, horizon: number): void {
  for (const [id, at] of sends) {
    if (at >= horizon) continue;
    sends.delete(id);
    apps.get(appIn(id))?.ownIds.delete(id);
  }
}

/** The next lines after an entry; entries are numbered without a gap. */
function linesAfter(ledger: readonly Line[], entry: number): readonly Line[] {
  const from = Math.max(0, entry + 1 - (ledger[0]?.entry ?? 0));
  return ledger.slice(from, from + MOST_LINES);
}

/** What is kept, as the arbiter takes it: put together anew where more has happened than what the arbiter does. */
function standingOf(memory: Memory, terms: Terms, now: number): Standing {
  memory.places ??= placesOf(memory, terms, now);
  const { places, apps, tag, circuits, refused } = memory;
  return { places, apps, tag, circuits, refusedInARow: refused };
}

function placesOf(memory: Memory, terms: Terms, now: number): Places {
  forgetOld(memory, now - keptFor(terms));
  const places = noPlaces();
  for (const app of memory.apps.values()) [app.all, app.own] = [noPlaces(), noPlaces()];
  for (const [id, at] of [...memory.sends].toSorted(([, a], [, b]) => a - b)) {
    const app = memory.apps.get(appIn(id));
    const sets = [places, ...(app ? [app.all] : []), ...(app?.ownIds.has(id) ? [app.own] : [])];
    for (const set of sets) {
      if (at <= now) set.arrived.push(at);
      else set.onTheirWay.set(id, at);
    }
  }
  return places;
}

/** A copy to which nothing happens any more, lines and places excepted, which nobody changes. */
function copyOf(memory: Memory): Memory {
  return {
    ...memory,
    sends: new Map(memory.sends),
    apps: copied(memory.apps, (app) => ({ ...app, ownIds: new Set(app.ownIds) })),
    circuits: copied(memory.circuits, (circuit) => ({ ...circuit })),
    replicas: new Map(memory.replicas),
    ledger: [...memory.ledger],
    places: undefined,
  };
}

const copied = <K, V>(map: ReadonlyMap<K, V>, copy: (value: V) => V): Map<K, V> =>
  new Map([...map].map(([key, value]) => [key, copy(value)]));
