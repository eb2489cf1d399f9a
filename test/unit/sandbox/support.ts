/**
 * What the sandbox's tests share: a small data set, a caller, and a client that hides nothing.
 */
import { onTestFinished } from "vitest";

import { signatureOf } from "../../../src/sandbox/auth.ts";
import { generateData } from "../../../src/sandbox/dataset/generate.ts";
import { createSandbox } from "../../../src/sandbox/sandbox.ts";
import type { Sandbox, SandboxOptions } from "../../../src/sandbox/sandbox.ts";
import { ask, type AskOptions, type Reply } from "../../support/ask.ts";

export const CALLER = { callerId: "tester", privateKey: "a-key-of-no-worth" };
export const NOW_MS = Date.UTC(2026, 5, 2, 8, 30, 15);
export const NOW_SECONDS = NOW_MS / 1000;

/** Small, but with some of everything. */
export const DATA = generateData({ seed: 7, listings: 900, sold: 1200, service: "propertyservice" });

let uniques = 0;

/** Sixteen characters, new each time. */
export function newUnique(): string {
  uniques += 1;
  return `u${String(uniques).padStart(15, "0")}`;
}

/** The four authentication parameters, any of which can be given another value. */
export function credentials(change: Partial<Record<string, string>> = {}): Record<string, string> {
  const time = change["time"] ?? String(NOW_SECONDS);
  const unique = change["unique"] ?? newUnique();
  return { callerId: CALLER.callerId, time, unique, hash: signatureOf(CALLER, time, unique), ...change };
}

/** A path with its question and its signature. */
export function signed(path: string, change?: Partial<Record<string, string>>): string {
  return `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams(credentials(change)).toString()}`;
}

/** A request that accepts JSON, if it has no headers of its own. */
export const call = (url: string, options: AskOptions = {}): Promise<Reply> =>
  ask(url, { headers: { Accept: "application/json" }, ...options });

/** A listening sandbox over `DATA`, closed when the test ends. */
export async function started(
  options: Partial<SandboxOptions> = {},
): Promise<{ sandbox: Sandbox; url: string }> {
  const fixed = { service: "propertyservice", ...CALLER, data: DATA, now: () => NOW_MS };
  const sandbox = createSandbox({ ...fixed, ...options });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen();
  return { sandbox, url };
}

/** What a JSON body holds. */
export function parsed(reply: Reply): Record<string, unknown> {
  return { ...Object(reply.json()) };
}
