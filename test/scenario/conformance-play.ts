/**
 * Plays a conformance scenario over real sockets in front of a sandbox, with a fake clock.
 */
import { gunzipSync } from "node:zlib";

import { expect } from "vitest";

import type { Reply } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { post } from "../support/post.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";
import type {
  Ask,
  Asked,
  Copied,
  Expected,
  FromNow,
  Scenario,
  Settings,
  Step,
  Upstream,
} from "./conformance-vocabulary.ts";

/** Long timeouts, so that a busy machine plays the same scenario; and each page is fetched and stored by itself. */
const BASE: Settings = {
  cache: { maxWaitForFresh: "10s" },
  upstream: { retryDelay: "1ms" },
  pages: { fold: "off" },
};

interface Stage {
  readonly gateway: TestGateway;
  readonly clock: SteppingClock;
  readonly replies: Map<string, Reply>;
}

export async function play({ settings = {}, env = {}, steps }: Scenario): Promise<void> {
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    // JSON is YAML.
    settings: JSON.stringify(merged(BASE, settings)),
    env,
  });
  const stage: Stage = { gateway, clock, replies: new Map() };
  for (const [index, step] of steps.entries()) await playStep(stage, step, `step ${index + 1}`);
}

async function playStep(stage: Stage, step: Step, where: string): Promise<void> {
  const { gateway, clock } = stage;
  if ("ask" in step) await playAsk(stage, step, where);
  else if ("together" in step) await playTogether(stage, step.together, where);
  else if ("pass" in step) clock.pass(step.pass * 1000);
  else if ("upstream" in step) setUpstream(stage, step.upstream);
  else if ("revise" in step) gateway.sandbox.revise();
  else if ("purge" in step) {
    const reply = await post(`${gateway.adminUrl}/cache/purge`, JSON.stringify(step.purge));
    expect([where, reply.status]).toEqual([where, 200]);
  } else await playAsked(stage, step, where);
}

async function playAsk(stage: Stage, step: Ask, where: string): Promise<void> {
  if (step.eventually) {
    await expect
      .poll(async () => told(await send(stage, step), step.gets, where))
      .toEqual(wanted(stage, step, where));
    return;
  }
  const reply = step.upstreamTakes === undefined ? await send(stage, step) : await sendSlowly(stage, step);
  check(stage, step, reply, where);
}

function check(stage: Stage, step: Ask, reply: Reply, where: string): void {
  expect(told(reply, step.gets, where)).toEqual(wanted(stage, step, where));
  const { sameBodyAs, otherBodyThan, decodesTo } = step.gets;
  if (sameBodyAs !== undefined) expect(reply.text, where).toBe(replyOf(stage, sameBodyAs).text);
  if (otherBodyThan !== undefined) expect(reply.text, where).not.toBe(replyOf(stage, otherBodyThan).text);
  if (decodesTo !== undefined)
    expect(gunzipSync(reply.body).toString(), where).toBe(replyOf(stage, decodesTo).text);
  if (step.as !== undefined) stage.replies.set(step.as, reply);
}

function send(
  { gateway, replies }: Stage,
  { ask, method = "GET", app, with: given = {} }: Ask,
): Promise<Reply> {
  const headers = Object.entries(given).map(([name, value]) => [name, textOf(value, replies)]);
  return gateway.get(ask, {
    method,
    headers: { ...Object.fromEntries(headers), ...(app !== undefined && { "x-app-id": app }) },
  });
}

/** Time goes by while the upstream has the request. */
async function sendSlowly(stage: Stage, step: Ask): Promise<Reply> {
  const { sandbox } = stage.gateway;
  sandbox.hold();
  const reply = send(stage, step);
  await sandbox.waitForRequests(sandbox.counts().total + 1);
  stage.clock.pass((step.upstreamTakes ?? 0) * 1000);
  sandbox.release();
  return await reply;
}

async function playTogether(stage: Stage, asks: readonly Ask[], where: string): Promise<void> {
  const { sandbox } = stage.gateway;
  const [first, ...others] = asks;
  if (first === undefined) throw new Error(`${where}: nobody asks`);
  sandbox.hold();
  const replies = [send(stage, first)];
  await sandbox.waitForRequests(sandbox.counts().total + 1);
  replies.push(...others.map((other) => send(stage, other)));
  await stage.gateway.admitted();
  sandbox.release();
  for (const [index, reply] of (await Promise.all(replies)).entries()) {
    const step = asks[index];
    if (step !== undefined) check(stage, step, reply, `${where}, caller ${index + 1}`);
  }
}

function setUpstream({ gateway: { sandbox }, clock }: Stage, { validators, headers, fault }: Upstream): void {
  sandbox.faults.clear();
  if (validators !== undefined) sandbox.set({ validators });
  if (fault !== undefined) sandbox.faults.add(fault);
  if (headers === undefined) return;
  const written = Object.entries(headers).map(([name, value]) => [
    name,
    typeof value === "string" ? value : httpDate(clock.now(), value),
  ]);
  sandbox.faults.add({ headers: Object.fromEntries(written) });
}

function httpDate(now: number, { secondsFromNow, zone = "GMT" }: FromNow): string {
  return new Date(now + secondsFromNow * 1000).toUTCString().replace("GMT", zone);
}

async function playAsked({ gateway: { sandbox } }: Stage, step: Asked, where: string): Promise<void> {
  await expect.poll(() => sandbox.counts().total, { message: where }).toBe(step.asked);
  const last = sandbox.requests().at(-1);
  if (step.answeredWith !== undefined) expect(last?.status, where).toBe(step.answeredWith);
  const names = last?.headerNames ?? [];
  expect(names, where).toEqual(expect.arrayContaining([...(step.has ?? [])]));
  for (const name of step.lacks ?? []) expect(names, where).not.toContain(name);
}

/** Of a reply what an expectation is about, with its status. */
function told(reply: Reply, expected: Expected, where: string): Record<string, unknown> {
  const { cache, age, maxAge, problem, headers } = expected;
  const named = Object.keys(headers ?? {}).map((name) => [name, reply.headers[name] ?? null]);
  return {
    where,
    status: reply.status,
    ...(cache !== undefined && { cache: shownStatus(reply, cache.includes("fwd-status")) }),
    ...(age !== undefined && { age: reply.headers.age }),
    ...(maxAge !== undefined && { cacheControl: reply.headers["cache-control"] }),
    ...(problem !== undefined && { problem: reply.status < 400 ? null : problemCode(reply) }),
    ...Object.fromEntries(named),
  };
}

/** What a reply with `told` must contain. */
function wanted({ replies }: Stage, { gets }: Ask, where: string): Record<string, unknown> {
  const { status = 200, cache, age, maxAge, problem, headers } = gets;
  const named = Object.entries(headers ?? {}).map(([name, value]) => [
    name,
    value === null ? null : textOf(value, replies),
  ]);
  return {
    where,
    status,
    ...(cache !== undefined && { cache }),
    ...(age !== undefined && { age: String(age) }),
    ...(maxAge !== undefined && { cacheControl: `max-age=${maxAge}` }),
    ...(problem !== undefined && { problem }),
    ...Object.fromEntries(named),
  };
}

function shownStatus(reply: Reply, withStatus: boolean): string {
  return Object.entries(cacheStatus(reply))
    .filter(([name]) => name !== "key" && (withStatus || name !== "fwd-status"))
    .map(([name, value]) => (value === true ? name : `${name}=${value}`))
    .join("; ");
}

function textOf(value: string | Copied, replies: ReadonlyMap<string, Reply>): string {
  if (typeof value === "string") return value;
  const text = replies.get(value.of)?.headers[value.header];
  if (text === undefined) throw new Error(`the reply "${value.of}" has no ${value.header}`);
  return String(text);
}

function replyOf({ replies }: Stage, name: string): Reply {
  const reply = replies.get(name);
  if (reply === undefined) throw new Error(`there is no reply "${name}"`);
  return reply;
}

function merged(base: Settings, over: Settings): Settings {
  const both = Object.entries(over).map(([name, value]) => {
    const below = base[name];
    return [name, isGroup(below) && isGroup(value) ? merged(below, value) : value] as const;
  });
  return { ...base, ...Object.fromEntries(both) };
}

function isGroup(value: Settings[string] | undefined): value is Settings {
  return typeof value === "object" && !Array.isArray(value);
}
