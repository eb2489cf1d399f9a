/**
 * Plays stories that are written as text, over real sockets in front of a sandbox. docs/internals/http-cases.txt explains the
 * words about caching, and these are the others:
 *
 *     clock fake          timers go off as the story's time goes by; otherwise it stands still, and timers are real
 *     start GET A as=x    asks and goes on; later, "x -> …" says what that request gets
 *     x hangs up
 *     hold /sold          the upstream keeps its answers back; "release 2" lets two of them go, "release" all
 *     sent 2              the upstream has received so many requests in all; "waiting 2": so many wait for its answer
 *     arrived             everything that was asked so far has reached the gateway, and is answered or waits
 *     timer 8.001 s       somebody waits that long; "timer 3 s × 2": so many
 *     back 40 s           the time of day is set back (clock fake)
 *     down, up            nothing listens at the upstream's address; the upstream listens there again
 *     landed              no call is under way, and nothing is refreshed
 *     asked /a | /b       what the upstream was asked since the last such line
 *     metric name 3       a series of the metrics has the value; "unmetered x": none has this text
 *     admin GET /x -> {…} the admin port's answer has these members; "entry A": about a URL
 *     warm [{…}]          what /cache/warm of the admin port shows for each listed answer, now or soon
 *     reload {…} -> …     the settings change, and are read again; what comes back
 *     log one | other     there is a line with all these texts, or it is still to come; "unlogged x": there is none
 *     forget              the next "asked" tells only what comes from now on
 *     times 20            the indented lines are played so often
 *     each X a | b        the story is played once with each in the place of X
 *     in somewhere        the lines of "scene somewhere", which stands at the top of the text
 *     {a|b}, {1..3}       the line is played once with each
 */
import { gunzipSync, zstdDecompressSync } from "node:zlib";

import { expect } from "vitest";
import { parse } from "yaml";

import type { Effects } from "../../src/sandbox/control/faults.ts";
import type { SandboxSettings } from "../../src/sandbox/types.ts";
import { ask, cacheStatus, problemCode, type Reply } from "../support/ask.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { LISTING_ID, startGateway } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";
import { unescaped } from "../support/table.ts";
import { pageOf } from "../support/upstream.ts";
import { countFrames } from "../support/zstd.ts";

export interface Story {
  readonly title: string;
  readonly lines: readonly string[];
}

/** Reads a text of stories. What stands before the first one, settings for example, holds for all. */
export function readStories(text: string): Story[] {
  const paths = new Map(
    [...text.matchAll(/^path (\w+) (\S+)$/gm)].map(([, name = "", path = ""]) => [name, path]),
  );
  const inFull = (line: string): string =>
    line.replaceAll(/\b[A-Z]+\b/g, (word) => paths.get(word) ?? word).replaceAll("@ID", LISTING_ID);
  const linesOf = (part: string): string[] => part.split("\n").filter((line) => line.trim() !== "");
  const [before = "", ...parts] = text.split(/^(?=# |scene )/m);
  const common = linesOf(before).filter((line) => /^(settings|env|clock) /.test(line));
  const scenes = new Map<string, string[]>();
  const stories: Story[] = [];
  for (const [head = "", ...rest] of parts.map(linesOf)) {
    const lines = rest
      .flatMap((line) => scenes.get(line.replace("  in ", "")) ?? eachOf(line))
      .map((line) => inFull(line));
    if (head.startsWith("scene ")) scenes.set(head.slice("scene ".length), lines);
    else
      stories.push(...storiesOf(head.slice("# ".length), [...common.map((line) => `  ${line}`), ...lines]));
  }
  return stories;
}

/** @returns the story once for each value of its "each" line */
function storiesOf(title: string, lines: readonly string[]): Story[] {
  const isEach = (line: string): boolean => line.startsWith("  each ");
  const [, name = "", values] = /^ {2}each (\w+) (.*)$/.exec(lines.find(isEach) ?? "") ?? [];
  if (values === undefined) return [{ title, lines }];
  return values.split(" | ").map((value) => ({
    title: `${title}: ${value}`,
    lines: lines.filter((line) => !isEach(line)).map((line) => line.replaceAll(name, value)),
  }));
}

/** @returns the line once with each of its alternatives, those of all places in step */
export function eachOf(line: string): string[] {
  const places = [...line.matchAll(/\{([^{}"]*(?:\||\.\.)[^{}"]*)\}/g)].map(([whole, inside = ""]) => {
    const [first, last] = inside.split("..").map(Number);
    if (last === undefined) return { whole, texts: inside.split("|") };
    return {
      whole,
      texts: Array.from({ length: last - Number(first) + 1 }, (_, at) => String(Number(first) + at)),
    };
  });
  const count = places[0]?.texts.length ?? 1;
  return Array.from({ length: count }, (_, at) =>
    places.reduce((text, { whole, texts }) => text.replace(whole, texts[at] ?? ""), line),
  );
}

type Group = Readonly<Record<string, unknown>>;

/** Long timeouts, so that a busy machine plays the same story. */
const BASE: Readonly<Record<string, Group>> = {
  cache: { maxWaitForFresh: "10s" },
  upstream: { retryDelay: "1ms" },
};

/** @returns what all "settings" lines say, each group merged */
function settingsIn(lines: readonly string[]): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...BASE };
  for (const groups of linesWith(lines, "settings"))
    for (const [name, group] of Object.entries(groups))
      merged[name] = Array.isArray(group) ? group : { ...Object(merged[name]), ...Object(group) };
  return merged;
}

/** @returns the objects of the lines that begin with a word */
function linesWith(lines: readonly string[], word: string, schema: "core" | "failsafe" = "core"): Group[] {
  return lines
    .filter((line) => line.startsWith(`  ${word} `))
    .map((line): Group => parse(line.slice(word.length + 3), { schema }));
}

interface Started {
  /** The line that asked. */
  readonly line: string;
  readonly reply: Promise<Reply>;
  readonly hangUp: () => void;
}

type Stage = Awaited<ReturnType<typeof open>>;

async function open(lines: readonly string[]) {
  const isFake = lines.includes("  clock fake");
  const [fake, stepping] = [createFakeClock(), createSteppingClock()];
  const clock = isFake ? fake : stepping;
  const [upstreamPort] = lines.includes("  down") ? await freePorts(1) : [];
  const setting = {
    now: clock.now,
    pass: (ms: number) => (isFake ? fake.advance(ms) : stepping.pass(ms)),
    back: (ms: number) => fake.set(fake.now() - ms),
    armed: (ms: number, times: number) => fake.armed(ms, times),
    /** The answers that later lines name. */
    replies: new Map<string, Reply>(),
    started: new Map<string, Started>(),
    /** How many of the upstream's requests `asked` lines have told. */
    told: 0,
    /** What the settings file says now. JSON is YAML. */
    settings: JSON.stringify(settingsIn(lines)),
  };
  const gateway = await startGateway({
    clock,
    ...(upstreamPort !== undefined && { upstreamPort }),
    ...(isFake && { random: { fraction: () => 0 } }),
    settings: () => setting.settings,
    env: Object.assign({}, ...linesWith(lines, "env", "failsafe")),
  });
  return Object.assign(setting, { gateway });
}

export async function play({ lines }: Story): Promise<void> {
  const stage = await open(lines);
  const steps = lines.filter((line) => !/^ {2}(settings|env|clock) /.test(line));
  for (let at = 0; at < steps.length;) {
    const line = steps[at++] ?? "";
    const within: string[] = [];
    while (steps[at]?.startsWith("    ")) within.push(steps[at++] ?? "");
    const [, times] = /^ {2}times (\d+)$/.exec(line) ?? [];
    const played = times === undefined ? [line, ...within] : within;
    for (let nth = 0; nth < Number(times ?? 1); nth++) for (const one of played) await playLine(stage, one);
  }
}

const pathsOf = ({ gateway }: Stage): string[] =>
  gateway.sandbox.requests().map(({ path, query }) => (query === "" ? path : `${path}?${query}`));

/** What a line does, by its first word. */
const WORDS: Readonly<Record<string, (stage: Stage, rest: string, line: string) => unknown>> = {
  revise: ({ gateway }) => gateway.sandbox.revise(),
  upstream: setUpstream,
  calls: expectCalls,
  async purge(stage, rest, line) {
    const reply = await stage.gateway.admin("/cache/purge", withCopies(stage, rest));
    expect([line, reply.status]).toEqual([line, 200]);
  },
  start(stage, rest) {
    const hanging = new AbortController();
    const reply = send(stage, rest, hanging.signal);
    reply.catch(() => undefined);
    stage.started.set(nameIn(rest) ?? "", { line: rest, reply, hangUp: () => hanging.abort() });
  },
  hold: ({ gateway }, rest) => gateway.sandbox.hold(rest === "" ? undefined : rest),
  release: ({ gateway }, rest) => gateway.sandbox.release(rest === "" ? undefined : Number(rest)),
  sent: ({ gateway }, rest) => gateway.sandbox.waitForRequests(Number(rest)),
  waiting: (stage, rest, line) =>
    expect
      .poll(async () => (await stage.pass(0), stage.gateway.sandbox.waiting()), { message: line })
      .toBe(Number(rest)),
  async warm(stage, rest, line) {
    const states = async (): Promise<unknown> => {
      await stage.pass(0);
      return (await stage.gateway.shows("/cache/warm")).urls;
    };
    await expect.poll(states, { message: line }).toMatchObject(parse(rest));
  },
  async reload(stage, rest, line) {
    const [settings = ""] = rest.split(/ ->(?: |$)/);
    stage.settings = JSON.stringify(settingsIn([`  settings ${settings}`]));
    check(stage, line, await stage.gateway.reload());
  },
  arrived: ({ gateway }) => gateway.admitted(),
  timer(stage, rest) {
    const [seconds, times = "1"] = rest.split(" s × ");
    return stage.armed(Math.round(Number.parseFloat(seconds ?? "") * 1_000), Number(times));
  },
  back: (stage, rest) => stage.back(Number.parseFloat(rest) * 1_000),
  down: ({ gateway }) => gateway.sandbox.close(),
  up: ({ gateway }) => gateway.sandbox.listen(Number(new URL(gateway.sandboxUrl).port)),
  landed: ({ gateway }) => gateway.landed(),
  async asked(stage, rest, line) {
    const wanted = rest === "nothing" ? [] : rest.split(" | ");
    await expect.poll(() => pathsOf(stage).slice(stage.told), { message: line }).toEqual(wanted);
    stage.told += wanted.length;
  },
  metric({ gateway }, rest, line) {
    const [, series = "", value] = /^(.*) (\S+)$/.exec(rest) ?? [];
    return expect.poll(() => gateway.metric(series), { message: line }).toBe(Number(value));
  },
  forget: (stage) => (stage.told = pathsOf(stage).length),
  admin: expectAdmin,
  entry: (stage, rest, line) =>
    expectAdmin(
      stage,
      rest.replace(/^\S+/, (url) => `GET /cache/entry?url=${encodeURIComponent(url)}`),
      line,
    ),
  log: ({ gateway }, rest) => gateway.logged(...rest.split(" | ")),
  unlogged: ({ gateway }, rest, line) => expect(gateway.log.join(""), line).not.toContain(rest),
  async unmetered({ gateway }, rest, line) {
    expect((await gateway.admin("/metrics")).text, line).not.toContain(rest);
  },
};

async function playLine(stage: Stage, line: string): Promise<void> {
  const [word = "", ...words] = line.trim().split(" ");
  const rest = words.join(" ");
  const known = stage.started.get(word);
  if (word.startsWith("+")) await stage.pass(Math.round(Number(word.slice(1)) * 1_000));
  else if (known !== undefined && rest === "hangs up") {
    known.hangUp();
    await expect(known.reply, line).rejects.toThrow();
  } else if (known !== undefined) {
    const reply = await known.reply;
    stage.replies.set(word, reply);
    check(stage, line, reply);
  } else if (/^[A-Z]+$/.test(word)) check(stage, line, await send(stage, line));
  else if (WORDS[word] === undefined) throw new Error(`nobody knows how to play: ${line}`);
  else await WORDS[word](stage, rest, line);
}

/** `GET A app=desk [name: value]` */
function requestIn(stage: Stage, line: string) {
  const [request = ""] = withCopies(stage, line).split(" -> ");
  const [, method = "", path = "", rest = ""] = /^ *(\w+) (\S+)(.*)$/.exec(request) ?? [];
  const [, app] = / app=(\S+)/.exec(rest.replaceAll(/\[[^\]]*\]/g, "")) ?? [];
  return {
    method,
    path: unescaped(path),
    headers: { ...headersIn(unescaped(rest)), ...(app !== undefined && { "x-app-id": app }) },
  };
}

function send(stage: Stage, line: string, signal?: AbortSignal): Promise<Reply> {
  const { path, ...request } = requestIn(stage, line);
  return stage.gateway.get(path, { ...request, ...(signal && { signal }) });
}

const nameIn = (line: string): string | undefined => / as=(\w+)/.exec(line.split(" -> ")[0] ?? "")?.[1];

function check(stage: Stage, line: string, reply: Reply): void {
  expect([line, told(stage, line, reply)]).toEqual([line, wanted(stage, line)]);
  const name = nameIn(line);
  if (name !== undefined) stage.replies.set(name, reply);
}

/** What a line expects. The status is 200 unless it says another one. */
function wanted(stage: Stage, line: string): string {
  const [, expected = ""] = withCopies(stage, line).split(" -> ");
  return / (?:status \d|fails)/.test(` ${expected}`) ? expected : `${expected} | status 200`;
}

/** What a line expects, with the values of the reply in the places of its own. */
function told(stage: Stage, line: string, reply: Reply): string {
  const parts = wanted(stage, line).split(" | ");
  return parts.map((part) => partOf(stage, part, reply, line)).join(" | ");
}

interface Seen {
  readonly reply: Reply;
  readonly value: string;
  /** The answer that the value names. */
  readonly other: Reply | undefined;
  /** What the upstream itself sends for the request. */
  readonly ofUpstream: () => string;
}

/** What a reply has in the place of a part: the value after the word, or whether it is so. */
const PARTS: Readonly<Record<string, (seen: Seen) => string | boolean>> = {
  status: ({ reply }) => String(reply.status),
  age: ({ reply }) => String(reply.headers.age),
  "max-age": ({ reply }) => String(reply.headers["cache-control"]?.replace(/^max-age=/, "")),
  problem: ({ reply }) => (reply.status < 400 ? "none" : problemCode(reply)),
  no: ({ reply, value }) => reply.headers[value] === undefined,
  "same as": ({ reply, other }) => other?.body.equals(reply.body) === true,
  "other than": ({ reply, other }) => other?.body.equals(reply.body) === false,
  "gunzips to": ({ reply, other }) => other?.body.equals(gunzipSync(reply.body)) === true,
  fails: ({ reply }) => reply.status >= 502,
  "a hit": ({ reply }) => cacheStatus(reply)["hit"] === true,
  detail: ({ reply }) => String(cacheStatus(reply)["detail"]),
  says: ({ reply, value }) => reply.text.includes(value),
  lacks: ({ reply, value }) => !reply.text.includes(value),
  "of upstream": ({ reply, ofUpstream }) => reply.text === ofUpstream(),
  "one zstd frame of upstream": ({ reply, ofUpstream }) =>
    countFrames(reply.body) === 1 && zstdDecompressSync(reply.body).toString() === ofUpstream(),
};

function partOf(stage: Stage, part: string, reply: Reply, line: string): string {
  if (part === "") return "";
  if (part.startsWith("["))
    return part.replaceAll(HEADER, (_, name: string) => `[${name}: ${String(reply.headers[name])}]`);
  const word = Object.keys(PARTS).find((known) => part === known || part.startsWith(`${known} `)) ?? "";
  const value = part.slice(word.length + 1);
  const ofUpstream = (): string => {
    const asked = stage.started.get(line.trim().split(" ")[0] ?? "")?.line ?? line;
    return pageOf(stage.gateway.sandbox, requestIn(stage, asked).path);
  };
  const found = PARTS[word]?.({ reply, value, other: stage.replies.get(value), ofUpstream });
  if (typeof found === "string") return `${word} ${found}`;
  if (found !== undefined) return found ? part : `not ${part}`;
  return Object.entries(cacheStatus(reply))
    .filter(([name]) => name !== "key" && (name !== "fwd-status" || part.includes(name)))
    .map(([name, said]) => (said === true ? name : `${name}=${said}`))
    .join("; ");
}

/** `POST /circuits/try -> {says: …}`. What is read with GET may take a moment to be so. */
async function expectAdmin(stage: Stage, rest: string, line: string): Promise<void> {
  const [, method = "", path = "", members = ""] =
    /^(\S+) (\S+) -> (.*)$/.exec(withCopies(stage, rest)) ?? [];
  const found = async (): Promise<unknown> => (await ask(stage.gateway.adminUrl + path, { method })).json();
  const wanted: object = parse(members);
  if (method === "GET") await expect.poll(found, { message: line }).toMatchObject(wanted);
  else expect(await found(), line).toMatchObject(wanted);
}

/** `calls 2, has if-none-match, lacks pragma, answered 304`. Waits for so many. */
async function expectCalls({ gateway: { sandbox } }: Stage, text: string, line: string): Promise<void> {
  const [count, ...more] = text.split(", ");
  await expect.poll(() => sandbox.counts().total, { message: line }).toBe(Number(count));
  const last = sandbox.requests().at(-1);
  for (const one of more) {
    const [word, value = ""] = one.split(" ");
    // The last request may still be on its way through the upstream.
    const status = (): unknown => sandbox.requests().at(-1)?.status;
    if (word === "answered") await expect.poll(status, { message: line }).toBe(Number(value));
    else expect(last?.headerNames.includes(value), line).toBe(word === "has");
  }
}

/** `validators=etag [cache-control: max-age=100] fault={"status":500}` */
function setUpstream({ gateway: { sandbox }, now }: Stage, text: string): void {
  const dated = text.replaceAll(/<now([+-]\d+)(?: (\w+))?>/g, (_, seconds: string, zone = "GMT") =>
    new Date(now() + Number(seconds) * 1_000).toUTCString().replace("GMT", zone),
  );
  const [, validators] = /validators=([\w-]+)/.exec(text) ?? [];
  const [, fault] = /fault=(\{.*\})$/.exec(text) ?? [];
  const headers = headersIn(dated);
  sandbox.faults.clear();
  if (validators !== undefined) {
    const settings: SandboxSettings = JSON.parse(`{"validators":"${validators}"}`);
    sandbox.set(settings);
  }
  if (fault !== undefined) {
    const effects: Effects = JSON.parse(fault);
    sandbox.faults.add(effects);
  }
  if (Object.keys(headers).length > 0) sandbox.faults.add({ headers });
}

const HEADER = /\[([\w-]+): ?([^\]]*)\]/g;

function headersIn(text: string): Record<string, string> {
  return Object.fromEntries([...text.matchAll(HEADER)].map(([, name = "", value = ""]) => [name, value]));
}

/** `<etag of first>` is that header of the answer that `as=first` named, `<serviceId of first>` the first such member. */
function withCopies({ replies }: Stage, line: string): string {
  return line.replaceAll(/<([\w-]+) of (\w+)>/g, (_, name: string, of: string) => {
    const reply = replies.get(of);
    return String(reply?.headers[name] ?? new RegExp(`"${name}":(\\d+)`).exec(reply?.text ?? "")?.[1]);
  });
}
