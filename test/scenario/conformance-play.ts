/**
 * Plays the cases of docs/internals/http-cases.txt over real sockets in front of a sandbox, with a fake clock. The file says
 * how cases are written.
 */
import { gunzipSync } from "node:zlib";

import { expect } from "vitest";

import type { Effects } from "../../src/sandbox/control/faults.ts";
import type { SandboxSettings } from "../../src/sandbox/types.ts";
import type { Reply } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { post } from "../support/ask.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";

interface Case {
  readonly id: string;
  readonly title: string;
  readonly lines: readonly string[];
}

export function readCases(text: string): Case[] {
  const paths = new Map(
    [...text.matchAll(/^path (\w+) (\S+)$/gm)].map(([, name = "", path = ""]) => [name, path]),
  );
  const inFull = (line: string): string =>
    line.replace(
      /^( +[A-Z]+ )(\w+)/,
      (_, method: string, name: string) => method + (paths.get(name) ?? name),
    );
  return text
    .split(/^(?=\d{4}-)/m)
    .slice(1)
    .map((part) => {
      const [head = "", ...lines] = part.split("\n").filter((line) => line.trim() !== "");
      const [id = "", ...title] = head.split(" ");
      return { id, title: title.join(" "), lines: lines.map(inFull) };
    });
}

type Settings = Readonly<Record<string, object>>;

/** Long timeouts, so that a busy machine plays the same case; and each page is fetched and stored by itself. */
const BASE: Settings = {
  cache: { maxWaitForFresh: "10s" },
  upstream: { retryDelay: "1ms" },
  pages: { fold: "off" },
};

interface Stage {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
  /** The answers that later lines name. */
  readonly replies: Map<string, Reply>;
}

export async function play({ lines }: Case): Promise<void> {
  const given = (name: string): Record<string, never> =>
    JSON.parse(lines.find((line) => line.startsWith(`  ${name} `))?.slice(name.length + 3) ?? "{}");
  const settings: Settings = given("settings");
  const merged = Object.entries({ ...BASE, ...settings }).map(([name, group]) => [
    name,
    Array.isArray(group) ? group : { ...BASE[name], ...group },
  ]);
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    // JSON is YAML.
    settings: JSON.stringify(Object.fromEntries(merged)),
    env: given("env"),
  });
  const stage: Stage = { gateway, clock, replies: new Map() };
  const steps = lines.filter((line) => !/^ {2}(settings|env) /.test(line));
  for (const [index, line] of steps.entries()) {
    if (line.trim() === "together") {
      const rest = steps.slice(index + 1);
      const end = rest.findIndex((other) => !other.startsWith("    "));
      await playTogether(stage, rest.slice(0, end < 0 ? rest.length : end));
    } else if (!line.startsWith("    ")) await playLine(stage, line);
  }
}

async function playLine(stage: Stage, line: string): Promise<void> {
  const { gateway, clock } = stage;
  const [word = "", ...words] = line.trim().split(" ");
  const rest = words.join(" ");
  if (word.startsWith("+")) clock.pass(Number(word.slice(1)) * 1_000);
  else if (word === "revise") gateway.sandbox.revise();
  else if (word === "upstream") setUpstream(stage, rest);
  else if (word === "calls") await expectCalls(stage, rest, line);
  else if (word === "purge") {
    const reply = await post(`${gateway.adminUrl}/cache/purge`, rest);
    expect([line, reply.status]).toEqual([line, 200]);
  } else await playAsk(stage, line);
}

/** `GET A app=desk [cache-control: no-cache] takes=5 as=first eventually -> hit; ttl=300 | age 0` */
async function playAsk(stage: Stage, line: string): Promise<void> {
  const [, takes] = /^[^[]* takes=(\d+)/.exec(line) ?? [];
  const { sandbox } = stage.gateway;
  if (/^.* eventually ->/.test(line)) {
    await expect.poll(async () => told(stage, line, await send(stage, line))).toBe(wanted(stage, line));
    return;
  }
  if (takes !== undefined) sandbox.hold();
  const reply = send(stage, line);
  if (takes !== undefined) {
    await sandbox.waitForRequests(sandbox.counts().total + 1);
    stage.clock.pass(Number(takes) * 1_000);
    sandbox.release();
  }
  check(stage, line, await reply);
}

async function playTogether(stage: Stage, lines: readonly string[]): Promise<void> {
  const { gateway } = stage;
  const [first = "", ...others] = lines;
  gateway.sandbox.hold();
  const replies = [send(stage, first)];
  await gateway.sandbox.waitForRequests(gateway.sandbox.counts().total + 1);
  replies.push(...others.map((line) => send(stage, line)));
  await gateway.admitted();
  gateway.sandbox.release();
  for (const [index, reply] of (await Promise.all(replies)).entries())
    check(stage, lines[index] ?? "", reply);
}

function send(stage: Stage, line: string): Promise<Reply> {
  const [request = ""] = withCopies(stage, line).split(" -> ");
  const [, method = "", path = "", rest = ""] = /^ *(\w+) (\S+)(.*)$/.exec(request) ?? [];
  const [, app] = / app=(\S+)/.exec(rest.replaceAll(/\[[^\]]*\]/g, "")) ?? [];
  const headers = { ...headersIn(rest), ...(app !== undefined && { "x-app-id": app }) };
  return stage.gateway.get(path, { method, headers });
}

function check(stage: Stage, line: string, reply: Reply): void {
  expect([line, told(stage, line, reply)]).toEqual([line, wanted(stage, line)]);
  const [, name] = / as=(\w+)/.exec(line.split(" -> ")[0] ?? "") ?? [];
  if (name !== undefined) stage.replies.set(name, reply);
}

/** What a line expects. The status is 200 unless it says another one. */
function wanted(stage: Stage, line: string): string {
  const [, expected = ""] = withCopies(stage, line).split(" -> ");
  return / status \d/.test(` ${expected}`) ? expected : `${expected} | status 200`;
}

/** What a line expects, with the values of the reply in the places of its own. */
function told(stage: Stage, line: string, reply: Reply): string {
  const parts = wanted(stage, line).split(" | ");
  return parts.map((part) => partOf(stage, part, reply)).join(" | ");
}

/** What a reply has in the place of a part: the value after the word, or whether it is so. */
const PARTS: Readonly<
  Record<string, (reply: Reply, value: string, other: Buffer | undefined) => string | boolean>
> = {
  status: ({ status }) => String(status),
  age: ({ headers }) => String(headers.age),
  "max-age": ({ headers }) => String(headers["cache-control"]?.replace(/^max-age=/, "")),
  problem: (reply) => (reply.status < 400 ? "none" : problemCode(reply)),
  no: ({ headers }, name) => headers[name] === undefined,
  "same as": ({ body }, _, other) => other?.equals(body) === true,
  "other than": ({ body }, _, other) => other?.equals(body) === false,
  "gunzips to": ({ body }, _, other) => other?.equals(gunzipSync(body)) === true,
};

function partOf({ replies }: Stage, part: string, reply: Reply): string {
  if (part === "") return "";
  if (part.startsWith("["))
    return part.replaceAll(HEADER, (_, name: string) => `[${name}: ${String(reply.headers[name])}]`);
  const word = Object.keys(PARTS).find((known) => part.startsWith(`${known} `)) ?? "";
  const value = part.slice(word.length + 1);
  const found = PARTS[word]?.(reply, value, replies.get(value)?.body);
  if (typeof found === "string") return `${word} ${found}`;
  if (found !== undefined) return found ? part : `not ${part}`;
  return Object.entries(cacheStatus(reply))
    .filter(([name]) => name !== "key" && (name !== "fwd-status" || part.includes(name)))
    .map(([name, said]) => (said === true ? name : `${name}=${said}`))
    .join("; ");
}

/** `calls 2, has if-none-match, lacks pragma, answered 304`. Waits for so many. */
async function expectCalls({ gateway: { sandbox } }: Stage, text: string, line: string): Promise<void> {
  const [count, ...more] = text.split(", ");
  await expect.poll(() => sandbox.counts().total, { message: line }).toBe(Number(count));
  const last = sandbox.requests().at(-1);
  for (const one of more) {
    const [word, value = ""] = one.split(" ");
    if (word === "answered") expect(last?.status, line).toBe(Number(value));
    else expect(last?.headerNames.includes(value), line).toBe(word === "has");
  }
}

/** `validators=etag [cache-control: max-age=100] fault={"status":500}` */
function setUpstream({ gateway: { sandbox }, clock }: Stage, text: string): void {
  const dated = text.replaceAll(/<now([+-]\d+)(?: (\w+))?>/g, (_, seconds: string, zone = "GMT") =>
    new Date(clock.now() + Number(seconds) * 1_000).toUTCString().replace("GMT", zone),
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

/** `<etag of first>` is that header of the answer that `as=first` named. */
function withCopies({ replies }: Stage, line: string): string {
  return line.replaceAll(/<([\w-]+) of (\w+)>/g, (_, header: string, of: string) =>
    String(replies.get(of)?.headers[header]),
  );
}
