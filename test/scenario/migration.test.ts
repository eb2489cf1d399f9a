/** Plays every row of the tables in docs/migration.md about requests. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import type { Reply } from "../support/ask.ts";
import { CALLER, LISTING_ID, startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const page = readFileSync("docs/migration.md", "utf8");

/** The rows of the table whose head begins with these columns, as their cells. */
function tableOf(...head: string[]): string[][] {
  const [, rows = ""] = page.split(`| ${head.join(" | ")} |`);
  const [table = ""] = rows.slice(rows.indexOf("\n") + 1).split("\n\n");
  return table
    .split("\n")
    .slice(1)
    .map((row) => row.split("|").map((cell) => cell.trim()))
    .map(([, ...cells]) => cells);
}

/** A text with its placeholders replaced by values of the test. */
function filledIn(text: string): string {
  return text.replaceAll("@ID", LISTING_ID).replaceAll("@KEY", CALLER.privateKey);
}

describe("an unusual request", () => {
  // A code block: what is sent, two spaces or more, and what it is.
  const rows = [...page.matchAll(/^(\/\S*) {2,}(\S.*)$/gm)].map(([, sent = "", becomes = ""]) => [
    sent,
    becomes,
  ]);

  it("has many rows", () => expect(rows.length).toBeGreaterThan(35));

  it.each(rows)("%s is %s", async (sent = "", becomes = "") => {
    const gateway = await startGateway();
    const reply = await gateway.get(filledIn(sent));
    if (becomes.startsWith("400 ")) {
      expect(problemCode(reply)).toBe("invalid-query");
      const [, ...parameters] = becomes.split(" ");
      const named = parameters.map((parameter) => expect.objectContaining({ parameter }));
      expect(reply.json()).toMatchObject({ status: 400, errors: named });
      expect(gateway.sandbox.requests()).toEqual([]);
      return;
    }
    expect([reply.status, cacheStatus(reply)["key"]]).toEqual([200, filledIn(becomes)]);
  });
});

const QUICK = "upstream: { retryDelay: 1ms }";
/** What came of a request: how the cache says it came by the answer, or the problem. */
function outcomeOf(reply: Reply): string {
  if (reply.status !== 200) return `${reply.status} ${problemCode(reply)}`;
  const { hit, fwd, detail } = cacheStatus(reply);
  return hit ? `hit ${String(detail)}` : `fwd=${String(fwd)}`;
}

/**
 * What comes of a request with a directive, where an answer of 100 s is held that is fresh; where it has
 * expired 100 s ago; likewise, and the API fails; and where nothing is held.
 */
const PLAYS: Readonly<Record<string, readonly [string, string, string, string]>> = {
  "max-age=60": ["hit refresh-not-allowed", "fwd=stale", "hit upstream-error", "fwd=miss"],
  "no-cache": ["hit refresh-not-allowed", "fwd=stale", "hit upstream-error", "fwd=miss"],
  "stale-if-error=0": ["hit memory", "fwd=stale", "502 upstream-error", "fwd=miss"],
  "max-stale=3600": ["hit memory", "hit max-stale", "hit max-stale", "fwd=miss"],
  "only-if-cached": ["hit memory", "504 not-in-cache", "504 not-in-cache", "504 not-in-cache"],
  "no-store": ["fwd=request", "fwd=request", "502 upstream-error", "fwd=request"],
};

describe("a request's Cache-Control", () => {
  const rows = tableOf("Your request says `Cache-Control:`", "You get");

  it("has a row for each tested directive", () => {
    expect(rows.map(([says]) => says?.replaceAll("`", ""))).toEqual(Object.keys(PLAYS));
  });

  it.each(Object.entries(PLAYS))("%s: %j", async (cacheControl, outcomes) => {
    const clock = createSteppingClock();
    const gateway = await startGateway({ clock, sandbox: { now: clock.now }, settings: QUICK });
    const headers = { "cache-control": cacheControl };
    const play = async (path: string): Promise<string> => outcomeOf(await gateway.get(path, { headers }));
    const [held, alsoHeld] = ["/listings?areaId=76", "/listings?areaId=1"] as const;
    await gateway.get(held);
    await gateway.get(alsoHeld);

    clock.pass(100_000);
    const fresh = await play(held);
    // Fresh for 300 s, and for 60 s more given while it is refreshed.
    clock.pass(300_000);
    const expired = await play(held);
    const nothing = await play("/areas?q=Nacka");
    gateway.sandbox.faults.add({ status: 500 });
    expect([fresh, expired, await play(alsoHeld), nothing]).toEqual(outcomes);
  });
});
