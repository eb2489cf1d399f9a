/**
 * The shared budget in Redis: what each script is asked, and what it answers (lua/prelude.lua has the keys).
 */
import type { OriginName } from "../types.ts";
import type { RedisClient } from "../redis/connect.ts";
import type { Wish } from "./allowance.ts";
import { ABOUT_MS, LOOKS, MOST_LOOKS, shareOf, type Terms } from "./arbiter.ts";
import { limitsText } from "../usage/limits-text.ts";
import { appIn } from "./mirror.ts";
import type {
  Asker,
  EnteredSend,
  Joined,
  KnownSend,
  LookReply,
  Lost,
  News,
  SharedApp,
  SharedBudget,
  SharedCircuit,
  TakeReply,
} from "./shared-budget.ts";
import { PRIORITIES } from "../types.ts";
import { keptMs } from "./windows.ts";
import { absentForMs, SILENT_MS } from "./shared-allowance.ts";
import { slackOf } from "./others.ts";
import type { Queued } from "./queued.ts";

/** What the budget measures of its commands; a closed set, as it labels a metric. */
type BudgetOperation = "take" | "settle" | "look" | "join" | "ledger";

/** Gives Redis a command. Rejects where Redis is out of order, or refuses. */
type RunOnRedis = <T>(
  operation: BudgetOperation,
  key: string,
  command: (client: RedisClient) => Promise<T>,
) => Promise<T>;

export interface RedisBudgetOptions {
  readonly run: RunOnRedis;
  /** What all keys begin with, those of both origins in one slot. */
  readonly namespace: string;
  readonly origin: OriginName;
  readonly terms: Terms;
  readonly replicas: number;
  readonly degradedForMs: number;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
  /** For tests: Redis' time, in milliseconds. */
  readonly redisNow?: () => number;
}

/** Replicas that were there before a restart of Redis are waited for at least so long. */
const REJOIN_GRACE_MS = 5_000;
/** One whose turn it is has so long to come and take its place. */
const GRACE_MS = 50;
const MOST_LINES = 500;
const MOST_SENDS = 500;

/** @returns what the budgets of a gateway begin their keys with; the braces keep them in one slot of a Cluster */
export function budgetKeys(
  namespace: string,
  origin: OriginName,
): { readonly [name in "state" | "sends" | "replicas" | "ledger" | "channel" | "own" | "all"]: string } {
  const prefix = `${namespace}{budget}:${origin}:`;
  const key = (name: string): string => prefix + name;
  return {
    state: key("state"),
    sends: key("sends"),
    replicas: key("replicas"),
    ledger: key("ledger"),
    channel: key("news"),
    own: key("own:"),
    all: key("all:"),
  };
}

export function createRedisBudget(options: RedisBudgetOptions): SharedBudget {
  const { terms } = options;
  const call = createCall(options);
  const { own } = budgetKeys(options.namespace, options.origin);
  const shares = createShares(terms);
  return {
    async take({ wishes, ...asker }) {
      const apps = [...new Set(wishes.map(({ app }) => app))];
      const candidates = wishes.map((wish) => candidateOf(wish, terms, apps));
      const reply = await call<TakeAnswer>("take", { ...said(asker), own, ...shares(), candidates }, apps);
      if (reply.kind === "lost") return reply;
      const queued = queuedIn(reply.queued);
      return reply.kind === "wait" ? { ...reply, queued, apps: listIn(reply.apps) } : { ...reply, queued };
    },
    async settle(asker, ends) {
      const apps = [...new Set(ends.map(({ app }) => app))];
      const reply = await call<SettleAnswer>(
        "settle",
        {
          ...said(asker),
          ends: ends.map((end) => ({ ...end, keys: apps.indexOf(end.app) + 1 })),
        },
        apps,
      );
      return reply.kind === "lost" ? reply : { ...reply, circuits: listIn(reply.circuits) };
    },
    async look(asker, entry) {
      const reply = await call<LookAnswer>("look", { ...said(asker), entry, most: MOST_LINES });
      return reply.kind === "lost" ? reply : newsIn(reply, entry, terms.leaseMs);
    },
    join: (replica, known) => join(replica, known, { own, call }),
    async leave(asker: Asker) {
      await call("look", { ...said(asker), leaves: true });
    },
  };
}

type Call = <T>(operation: keyof typeof COMMANDS, request: object, apps?: readonly string[]) => Promise<T>;

const COMMANDS = {
  take: (client, numberOfKeys, args) => client.takePlace(numberOfKeys, ...args),
  settle: (client, numberOfKeys, args) => client.settleSends(numberOfKeys, ...args),
  look: (client, numberOfKeys, args) => client.lookAtBudget(numberOfKeys, ...args),
  join: (client, numberOfKeys, args) => client.joinBudget(numberOfKeys, ...args),
} as const satisfies Record<
  string,
  (client: RedisClient, numberOfKeys: number, args: readonly string[]) => Promise<string>
>;

/** @returns a function that runs a script; `apps`: those whose keys it needs */
function createCall(options: RedisBudgetOptions): Call {
  const { run, terms, origin, namespace, redisNow } = options;
  const keys = budgetKeys(namespace, origin);
  // Of the moment: the terms may change.
  const common = (): object => ({
    channel: keys.channel,
    windows: terms.windows.map(({ limit, windowMs }) => ({ limit, ms: windowMs })),
    reserve: terms.reserve,
    leaseMs: terms.leaseMs,
    maxCoolOffMs: terms.maxCoolOffMs,
    slack: slackOf(terms),
    replicas: options.replicas,
    absentForMs: absentForMs(terms, options.degradedForMs),
    silentMs: SILENT_MS,
    rejoinMs: REJOIN_GRACE_MS,
    graceMs: GRACE_MS,
    aboutMs: ABOUT_MS,
    looks: LOOKS,
    mostLooks: MOST_LOOKS,
    horizonMs: keptMs(terms.windows) + terms.leaseMs,
    ...options.ledger,
  });
  return async function call<T>(
    operation: keyof typeof COMMANDS,
    request: object,
    apps: readonly string[] = [],
  ): Promise<T> {
    const names = [keys.state, keys.sends, keys.replicas, keys.ledger];
    for (const app of apps) names.push(keys.own + app, keys.all + app);
    const now = redisNow && { now: redisNow() };
    const args = [...names, JSON.stringify({ ...common(), ...request, ...now })];
    const text = await run(operation, keys.state, (client) =>
      COMMANDS[operation](client, names.length, args),
    );
    // The scripts beside this file are the only ones who write it.
    const answer: T = JSON.parse(text);
    return answer;
  };
}

/** The limits, the shares of all apps that are known, and of one that is not; reckoned again when the terms have changed. */
function createShares(terms: Terms): () => object {
  const reckon = ({ windows, apps }: Terms) => ({
    of: { windows, apps },
    shares: Object.fromEntries([...apps.keys()].map((app) => [app, sharesOf(terms, app)])),
    strangers: sharesOf(terms, ""),
    limits: limitsText(windows),
  });
  let reckoned = reckon(terms);
  return () => {
    const { of } = reckoned;
    if (of.windows !== terms.windows || of.apps !== terms.apps) reckoned = reckon(terms);
    const { shares, strangers, limits } = reckoned;
    return { shares, strangers, limits };
  };
}

/** An app's share of each window. */
function sharesOf(terms: Terms, app: string): number[] {
  return terms.windows.map((window) => shareOf(terms, window, app));
}

function candidateOf(
  { app, priority, resource, cause, query }: Wish,
  terms: Terms,
  apps: readonly string[],
): object {
  const { weight = 1, perDay = null } = terms.apps.get(app) ?? {};
  return {
    app,
    resource,
    cause,
    query,
    weight,
    rank: PRIORITIES.indexOf(priority),
    keys: apps.indexOf(app) + 1,
    shares: sharesOf(terms, app),
    ...(perDay !== null && { perDay }),
  };
}

/** Lua has no empty lists: one comes as an empty object. */
function listIn<T>(list: readonly T[] | object | undefined): readonly T[] {
  return Array.isArray(list) ? list : [];
}

/** The same, with who waits there as it stands in Redis: `app:rank:length,…`; an app's name has no such signs. */
function said<T extends Asker>(asker: T): Omit<T, "queued"> & { readonly queued: string | undefined } {
  const queued = asker.queued?.map(
    ({ app, priority, length }) => `${app}:${PRIORITIES.indexOf(priority)}:${length}`,
  );
  return { ...asker, queued: queued?.join(",") };
}

/** Who waits at other replicas. */
function queuedIn(texts: readonly string[] | object): readonly Queued[] {
  const parts = listIn<string>(texts).flatMap((text) => text.split(","));
  return parts.map((part) => {
    const [app = "", rank, length] = part.split(":");
    return { app, priority: PRIORITIES[Number(rank)] ?? "prefetch", length: Number(length) };
  });
}

type TakeAnswer =
  | Raw<Extract<TakeReply, { kind: "granted" }>>
  | Raw<Extract<TakeReply, { kind: "wait" }>>
  | Lost;
/** As the script says it. */
type Raw<T> = Omit<T, "queued"> & { readonly queued: readonly string[] };

type SettleAnswer = Lost | { readonly kind: "settled"; readonly circuits: readonly SharedCircuit[] };

interface News_ {
  readonly kind: "news";
  readonly now: number;
  readonly seq: number;
  readonly lines: readonly (readonly [entry: string, fields: readonly string[]])[];
  readonly isAll: boolean;
  readonly circuits: readonly SharedCircuit[];
  readonly apps: readonly SharedApp[];
  readonly live: number;
  readonly held: readonly number[];
  readonly queued: readonly string[];
  readonly replicas: readonly string[];
}
type LookAnswer = Lost | News_;

function newsIn(reply: News_, after: string, leaseMs: number): LookReply {
  const lines = listIn<(typeof reply.lines)[number]>(reply.lines);
  return {
    ...reply,
    news: lines.flatMap(([, fields]) => newsOf(fieldsIn(fields), reply.now, leaseMs)),
    entry: lines.at(-1)?.[0] ?? after,
    circuits: listIn(reply.circuits),
    apps: listIn(reply.apps),
    queued: queuedIn(reply.queued),
    replicas: listIn(reply.replicas),
  };
}

/** A stream's entry as a mapping; its fields come as a flat list. */
export function fieldsIn(flat: readonly string[]): Readonly<Record<string, string | undefined>> {
  const fields: Record<string, string> = {};
  for (let index = 0; index + 1 < flat.length; index += 2) fields[flat[index] ?? ""] = flat[index + 1] ?? "";
  return fields;
}

/** A line of the ledger as news. */
function newsOf(
  { k, i: id = "", t, s, o }: Readonly<Record<string, string | undefined>>,
  now: number,
  leaseMs: number,
): News[] {
  const ageMs = now - Number(t);
  const isOwn = o === "1";
  if (k === "s") return [{ kind: "sent", id, ageMs: ageMs - leaseMs, isOwn, seq: undefined }];
  if (k === "n") return [{ kind: "sent", id, ageMs, isOwn, seq: undefined }];
  return k === "e" ? [{ kind: "settled", id, ageMs, isUnsent: s === "unsent" }] : [];
}

interface JoinAnswer {
  readonly gen: string;
  readonly seq: number;
  readonly entry: string;
}

async function join(
  replica: string,
  { sends, others }: { readonly sends: readonly KnownSend[]; readonly others: readonly string[] },
  { own, call }: { readonly own: string; readonly call: Call },
): Promise<Joined> {
  for (let from = 0; ; from += MOST_SENDS) {
    const part = sends.slice(from, from + MOST_SENDS);
    const apps = [...new Set(part.map(({ id }) => appIn(id)))];
    const isLast = from + MOST_SENDS >= sends.length;
    const request = { replica, others, isLast, sends: part.map((send) => broughtSend(send, apps)) };
    const { gen, seq, entry } = await call<JoinAnswer>("join", request, apps);
    if (isLast) return { gen, seq, entry, sends: await readSends(own, call) };
  }
}

function broughtSend({ id, ageMs, late }: KnownSend, apps: readonly string[]): object {
  const { wish, limits, sentMs, end } = late ?? {};
  return {
    id,
    ageMs,
    keys: apps.indexOf(appIn(id)) + 1,
    ...(wish && { resource: wish.resource, cause: wish.cause, query: wish.query, limits, sentMs }),
    ...end,
  };
}

type KeptSend = readonly [id: string, instant: string, isOwn: boolean];

async function readSends(own: string, call: Call): Promise<readonly EnteredSend[]> {
  const sends: EnteredSend[] = [];
  for (let page = 0; ; page += MOST_SENDS) {
    const answer = await call<{ now: number; sends: readonly KeptSend[] }>("join", {
      page,
      own,
      most: MOST_SENDS,
    });
    const kept = listIn<KeptSend>(answer.sends);
    for (const [id, instant, isOwn] of kept) sends.push({ id, ageMs: answer.now - Number(instant), isOwn });
    if (kept.length < MOST_SENDS) return sends;
  }
}

/** @returns what a message on the channel says, or `undefined` where it is none that is understood here */
export function readNews(text: string): News | undefined {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof message !== "object" || message === null) return undefined;
  const field = (name: string): unknown => Reflect.get(message, name);
  const id = String(field("id"));
  const ageMs = Number(field("ageMs"));
  switch (field("kind")) {
    case "sent":
      return { kind: "sent", id, ageMs, isOwn: field("isOwn") === true, seq: Number(field("seq")) };
    case "settled":
      return { kind: "settled", id, ageMs, isUnsent: field("isUnsent") === true };
    case "circuits": {
      const circuits: unknown = field("circuits");
      return {
        kind: "circuits",
        circuits: listIn<SharedCircuit>(typeof circuits === "object" && circuits !== null ? circuits : []),
      };
    }
    case "generation":
      return { kind: "generation", gen: String(field("gen")) };
    case "changed":
      return { kind: "changed" };
    default:
      return undefined;
  }
}
