/** What is looked at once nothing goes wrong any more. */
import { shareOf, type Terms } from "../../src/ratelimit/arbiter.ts";
import { freeAt, noPlaces, settlePlace, type Window } from "../../src/ratelimit/windows.ts";
import { SILENT_MS } from "../../src/ratelimit/shared-allowance.ts";
import { PRIORITIES } from "../../src/types.ts";
import { mostWithin } from "../support/arrivals.ts";
import { agreed, APPS, LEASE_MS } from "./plan.ts";
import type { Arrival, Replica } from "./replica.ts";
import { callOf, start, type World } from "./world.ts";

/** Until one who waits has heard of something. */
const NOTICED_MS = 100;
/** A wait as short as this is for others to catch up; no place is promised with it. */
const CATCH_UP_MS = 250;
/** How often a replica says that it is there. */
const BEAT_MS = 250;
/** Who goes within so short a time of another has not kept it waiting. */
const TOGETHER_MS = 50;
/** How often a quiet app asks. */
const QUIET_REQUESTS = 5;
/** For how long the upstream is left alone where it does not say. */
const FIRST_COOL_OFF_MS = 1_000;

/** The windows, where all replicas have the same. */
function windowsOf({ alive }: World): readonly Window[] {
  const [first, ...others] = [...alive].map(({ terms }) => terms.windows);
  const isSame = others.every((windows) => windows.every(({ limit }, i) => limit === first?.[i]?.limit));
  return isSame ? (first ?? []) : [];
}

/** Everybody wants as much as there is: all of it gets used, and every app gets its share. */
export async function checkUse(world: World, longestMs: number): Promise<void> {
  const { clock, arrivals, problems, alive, plan } = world;
  const { windowsOfUse } = plan.pace;
  const from = clock.monotonic();
  await clock.advance(longestMs * (windowsOfUse + 1));
  const to = clock.monotonic();
  // While limits are being changed, who has the lower ones goes by those.
  const windows = windowsOf(world);
  if (windows.length === 0) return;
  const [first] = alive;
  const sends = arrivals.filter(({ at }) => at >= from && at < to);
  const instants = sends.map(({ at }) => at);
  for (const { limit, windowMs } of windows) {
    const most = mostWithin(instants, windowMs);
    if (most > limit) problems.push(`overrun: ${most} of ${limit} within ${windowMs} ms, all being well`);
  }
  // Sends come in bursts, a window apart: the best stretch is the one that cuts none of them in two.
  const used = Math.max(
    ...windows.map(
      ({ limit, windowMs }) => mostWithin(instants, windowMs * windowsOfUse) / (limit * windowsOfUse),
    ),
  );
  // One more or less at either end says nothing, and in windows as short as these it weighs how long it
  // takes until who waits has heard of a free place.
  const least = Math.min(
    ...windows.map(
      ({ limit, windowMs }) => (0.95 * windowMs) / (windowMs + NOTICED_MS) - 2 / (limit * windowsOfUse),
    ),
  );
  if (used < least) problems.push(`only ${Math.round(used * 100)} % are used`);
  const stretchMs = longestMs * windowsOfUse;
  for (const app of APPS) {
    const share = Math.min(
      ...windows.map((window) => (shareIn(first?.terms, window, app) * stretchMs) / window.windowMs),
    );
    const sent = mostWithin(
      sends.filter((arrival) => arrival.app === app).map(({ at }) => at),
      stretchMs,
    );
    // A place that is given back unused has been its turn all the same.
    if (sent < Math.floor(share * 0.9) - 1) problems.push(`${app} has sent ${sent}, its share is ${share}`);
  }
}

/**
 * An app has a thousand requests queued, perhaps as background work beside callers of its own, who go before
 * that; another one asks now and then, for half its share. It waits no more than twice as long as it would alone
 * with its share. Where the window is too small to leave a place for each app, or the places left have been
 * taken, it has to wait for the next one that comes free: the hog takes its own share at once whenever that
 * does, and fills the window half-way through. In a window that has room that happens to one at the most.
 */
export async function checkQuiet(world: World, longestMs: number): Promise<void> {
  const { clock, dice, alive, arrivals, problems } = world;
  const windows = windowsOf(world);
  const [first] = alive;
  if (windows.length === 0 || first === undefined) return;
  const [quiet = "", hog = ""] = dice.shuffled(APPS);
  const priority = dice.pick(["interactive", "prefetch"] as const);
  for (const replica of alive) {
    replica.drop();
    replica.want({ ...callOf(hog), priority }, Math.ceil(1_000 / alive.size));
  }
  await clock.advance(longestMs + NOTICED_MS);
  const share = windows.map((window) => ({ ...window, limit: shareOf(first.terms, window, quiet) }));
  const gapMs = Math.max(...share.map(({ limit, windowMs }) => (2 * windowMs) / limit));
  const from = clock.monotonic();
  for (let asked = 0; asked < QUIET_REQUESTS; asked++) {
    dice.pick([...alive]).want(callOf(quiet), 1);
    if (priority !== "interactive") dice.pick([...alive]).want(callOf(hog), 1);
    await clock.advance(dice.between(gapMs / 2, (gapMs * 3) / 2));
  }
  await clock.advance(longestMs);
  const sent = arrivals.filter(({ app, askedAt }) => app === quiet && askedAt >= from);
  const waits = sent.map(({ at, askedAt }) => at - askedAt);
  const alone = waitsAlone(sent, share);
  const hasRoom = windows.every(({ limit }) => limit >= 10 * (APPS.length - 1));
  const toNextMs = Math.max(...share.map(({ limit, windowMs }) => windowMs / 2 + windowMs / limit));
  const late = waits.map((waited, index) => waited - 2 * (alone[index] ?? 0) - NOTICED_MS);
  if (late.some((ms) => ms > toNextMs) || (hasRoom && late.filter((ms) => ms > 0).length > 1))
    problems.push(`${quiet} waits for ${waits.join(", ")} ms beside ${hog}, alone for ${alone.join(", ")}`);
  problems.push(...overtaken(arrivals.filter(({ sentAt }) => sentAt >= from)));
}

/** Background work that went while a caller of the same replica waited for the same place: two may come free at once. */
function overtaken(arrivals: readonly Arrival[]): readonly string[] {
  const calls = arrivals.filter(({ priority }) => priority === "interactive");
  const others = arrivals.filter(({ priority }) => priority !== "interactive");
  return calls.flatMap(({ id, replica, askedAt, sentAt }) => {
    const before = others.find(
      (other) =>
        other.replica === replica &&
        other.sentAt > askedAt + NOTICED_MS &&
        other.sentAt < sentAt - TOGETHER_MS,
    );
    return before === undefined ? [] : [`${before.id} at ${before.sentAt} goes before ${id} at ${sentAt}`];
  });
}

/** How long each would have waited, had its app been alone with such limits. */
function waitsAlone(sent: readonly Arrival[], limits: readonly Window[]): readonly number[] {
  const places = noPlaces();
  return sent.map(({ askedAt }) => {
    const at = freeAt(places, limits, askedAt);
    settlePlace(places, "", at);
    return at - askedAt;
  });
}

/** What is promised to one who waits is kept. */
export async function checkPromise(world: World, longestMs: number): Promise<void> {
  const { clock, dice, alive, arrivals, problems, plan } = world;
  await calmDown(world, longestMs);
  if (alive.size === 0) return;
  const [busy, other] = [dice.pick([...alive]), dice.pick([...alive])];
  for (const app of APPS) busy.want(callOf(app), Math.max(...agreed(plan).map(({ limit }) => limit)));
  await clock.advance(dice.between(200, 800));
  for (const replica of alive) replica.drop();
  await clock.advance(dice.between(50, 400));
  const asked = other.promises.length;
  const before = arrivals.length;
  const askedAt = clock.monotonic();
  other.want(callOf("web"), 1);
  await clock.advance(longestMs * 2);
  const first = other.promises.slice(asked).find(({ forMs }) => forMs > CATCH_UP_MS);
  // It is not sent where it was withdrawn.
  const arrival = arrivals[before];
  const promisedAt = first === undefined ? askedAt : first.at + first.forMs;
  if (arrival === undefined) {
    if (other.wanted() > 0) problems.push("one who waits alone is never let through");
  } else if (arrival.at > promisedAt + 300 && other.promises.length > asked + 1)
    problems.push(`promised at ${promisedAt}, let through at ${arrival.at}`);
}

/** Who waits hears at once of what it waits for. */
export async function checkWakeUps(world: World, longestMs: number): Promise<void> {
  if (world.alive.size === 0) return;
  await calmDown(world, longestMs);
  await checkGivenBack(world);
  await calmDown(world, longestMs);
  if (world.alive.size > 1 && windowsOf(world).length > 0) await checkRelief(world);
  await calmDown(world, longestMs);
  // After those that hold places: one of them would be the probe, and never be answered.
  await checkProbe(world);
  await calmDown(world, longestMs);
  await checkNewcomer(world);
  await checkNobodyIsLeft(world, longestMs);
}

/** All places have been taken, and are given back unused. */
async function checkGivenBack(world: World): Promise<void> {
  const { clock, dice, alive, problems } = world;
  const [holder, other] = [dice.pick([...alive]), dice.pick([...alive])];
  const release: (() => void)[] = [];
  for (const app of APPS) void holder.hold(callOf(app)).then((giveBack) => release.push(giveBack));
  await clock.advance(NOTICED_MS * 5);
  if (release.length < APPS.length) problems.push("one who asks for all that there is gets more and more");
  other.want(callOf("web"), 1);
  await clock.advance(NOTICED_MS);
  for (const giveBack of release) giveBack();
  await clock.advance(NOTICED_MS);
  if (other.wanted() > 0) problems.push("one who waits does not hear of a place that is given back");
}

/** The upstream has asked to be left alone; once a probe is answered, all may go. */
async function checkProbe(world: World): Promise<void> {
  const { clock, dice, alive, upstream, problems } = world;
  const [told, ...others] = dice.shuffled([...alive]);
  upstream.slowDown = 1;
  upstream.causes = [dice.pick(["too-many-requests", "unavailable"])];
  told?.want(callOf("mobile"), 1);
  await clock.advance(NOTICED_MS * 2);
  upstream.slowDown = 0;
  const [one = told, another = told] = others;
  one?.want(callOf("web"), 1);
  another?.want(callOf("batch"), 1);
  await clock.advance(FIRST_COOL_OFF_MS);
  await clock.advance(NOTICED_MS * 3);
  if (isWanted(alive)) problems.push("one who waits does not hear that the upstream is well again");
}

/** Something was held back for a replica that stood still, until it went on. */
async function checkRelief(world: World): Promise<void> {
  const { clock, dice, alive, problems } = world;
  const [sleeper, holder, other = holder] = dice.shuffled([...alive]);
  sleeper?.stall(SILENT_MS + NOTICED_MS * 7);
  await clock.advance(SILENT_MS + NOTICED_MS * 3);
  for (const app of APPS) void holder?.hold(callOf(app));
  await clock.advance(NOTICED_MS * 2);
  for (const app of APPS) other?.want(callOf(app), 1);
  await clock.advance(NOTICED_MS);
  const waiting = other?.wanted() ?? 0;
  // It goes on, and says so; the others hear of it the next time that they say that they are there.
  await clock.advance(NOTICED_MS * 2 + BEAT_MS);
  if (waiting === APPS.length && other?.wanted() === waiting)
    problems.push("one who waits does not hear that nothing is held back any more");
}

/** A replica takes the place of another: who waits in it goes as soon as it has joined. */
async function checkNewcomer(world: World): Promise<void> {
  const { clock, dice, alive, problems } = world;
  const leaver = dice.pick([...alive]);
  void leaver.stop().then(() => alive.delete(leaver));
  await clock.advance(NOTICED_MS);
  const newcomer = start(world);
  newcomer.want(callOf("web"), 1);
  await clock.advance(NOTICED_MS * 2);
  if (newcomer.wanted() > 0) problems.push("one who waits does not hear that its replica has joined");
}

/** Whoever wants something in the end gets it, in the time that there is for so many. */
async function checkNobodyIsLeft({ clock, dice, alive, problems }: World, longestMs: number): Promise<void> {
  for (const replica of alive) {
    const candidate = { ...callOf(dice.pick(APPS)), priority: dice.pick(PRIORITIES) };
    replica.want(candidate, dice.between(1, 2));
  }
  // At the least, a window lets one go after the other.
  const atMost = [...alive].reduce((sum, replica) => sum + replica.wanted(), 0) + 1;
  for (let waited = 0; waited < atMost && isWanted(alive); waited++) await clock.advance(longestMs);
  if (isWanted(alive)) problems.push("somebody waits in vain");
}

const isWanted = (alive: ReadonlySet<Replica>): boolean => [...alive].some((replica) => replica.wanted() > 0);

/** Nobody wants anything, and nothing counts any more. */
async function calmDown({ clock, alive }: World, longestMs: number): Promise<void> {
  for (const replica of alive) replica.drop();
  await clock.advance(longestMs + LEASE_MS);
}

/** An app's share as its weight has it: where the limit is small, one that is rounded up to 1 is more than that. */
function shareIn(terms: Terms | undefined, window: Window, app: string): number {
  if (terms === undefined) return 0;
  const total = [...terms.apps.values()].reduce((sum, { weight }) => sum + weight, 0);
  return Math.min(shareOf(terms, window, app), (window.limit * (terms.apps.get(app)?.weight ?? 1)) / total);
}
