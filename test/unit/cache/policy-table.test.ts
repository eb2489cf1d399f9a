import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { type CacheRequest, decide, type Decision, type Cached } from "../../../src/cache/serve-or-fetch.ts";
import { Problem } from "../../../src/errors.ts";
import { type CallerDirectives, NO_DIRECTIVES } from "../../../src/query/request.ts";
import type { Entry } from "../../../src/cache/entry.ts";
import { entryWith } from "../../support/entries.ts";
import { SEARCH } from "../../support/question.ts";
import { each, rulesWith } from "../../support/rules.ts";

/**
 * Plays the table of rules in docs/internals/cache-policy.md. Each word has a meaning here; a word without one is an error in the
 * table.
 */

const SECOND = 1_000;
const NOW = Date.UTC(2026, 0, 15, 12);
const RULES = rulesWith({
  ttlMs: each(100 * SECOND),
  negativeTtlMs: each(100 * SECOND),
  staleWhileRevalidateMs: each(50 * SECOND),
  staleIfErrorMs: each(500 * SECOND),
  maxAgeEverMs: 5_000 * SECOND,
  retentionMs: 20_000 * SECOND,
});

/** An answer of an age, all of them fresh for 100 s. */
function aged(seconds: number, changes: Partial<Entry> = {}): Entry {
  const storedAt = NOW - seconds * SECOND;
  return entryWith("{}", storedAt, {
    bornAt: storedAt,
    freshUntil: storedAt + 100 * SECOND,
    keepUntil: storedAt + RULES.retentionMs,
    ...changes,
  });
}

interface Case {
  cached: Cached | undefined;
  asked: CacheRequest;
  failed: Problem | undefined;
}

const FAILURE = new Problem("upstream-error");
const REFUSAL = new Problem("temporary-reduced-capacity");
const MISTAKE = new Problem("internal-error");

function holding(seconds: number): (of: Case) => void {
  return (of) => (of.cached = { entry: aged(seconds), isPurged: false });
}

function changing(changes: Partial<Entry>): (of: Case) => void {
  return (of) => (of.cached = of.cached && { ...of.cached, entry: { ...of.cached.entry, ...changes } });
}

function asking(changes: Partial<CallerDirectives>): (of: Case) => void {
  return (of) => changeRequest(of, { directives: { ...of.asked.request.directives, ...changes } });
}

function changeRequest(of: Case, changes: Partial<CacheRequest["request"]>): void {
  of.asked = { ...of.asked, request: { ...of.asked.request, ...changes } };
}

const trying =
  (failed: Problem | undefined): ((of: Case) => void) =>
  (of) =>
    (of.failed = failed);

/** The words of the first three columns. Ages in seconds; an answer expires when it is 100 s old. */
const WORDS: Record<string, (of: Case) => void> = {
  nothing: (of) => (of.cached = undefined),
  fresh: holding(60),
  updating: holding(120),
  stale: holding(400),
  "expired too long": holding(700),
  "too old": holding(5_001),
  purged: (of) => (of.cached = { entry: aged(60), isPurged: true }),
  "near maxAgeEver": (of) =>
    (of.cached = { entry: aged(4_500, { freshUntil: NOW + 500 * SECOND }), isPurged: false }),
  "just fetched": holding(9),
  "not found": changing({ status: 404 }),
  "upstream forbids it": changing({ upstreamStale: { whileRevalidateMs: 0, ifErrorMs: 0 } }),
  "only-if-cached": asking({ onlyIfCached: true }),
  "no-cache": asking({ noCache: true }),
  "max-age it meets": asking({ maxAgeMs: 130 * SECOND }),
  "max-age it exceeds": asking({ maxAgeMs: 59 * SECOND }),
  "min-fresh it meets": asking({ minFreshMs: 40 * SECOND }),
  "min-fresh it fails": asking({ minFreshMs: 41 * SECOND }),
  "max-stale": asking({ maxStaleMs: Number.POSITIVE_INFINITY }),
  "max-stale it meets": asking({ maxStaleMs: 300 * SECOND }),
  "max-stale it exceeds": asking({ maxStaleMs: 19 * SECOND }),
  "stale-if-error=0": asking({ staleIfErrorMs: 0 }),
  "may force": (of) => changeRequest(of, { mayForceRefresh: true }),
  failed: trying(FAILURE),
  refused: trying(REFUSAL),
  "internal error": trying(MISTAKE),
};

function rowsOfTable() {
  const text = readFileSync(new URL("../../../docs/internals/cache-policy.md", import.meta.url), "utf8");
  return [...text.matchAll(/^[A-Z]\d+ .*$/gm)].map(([line]) => {
    const [id = "", state = "", decision = "", says = ""] = line.split(/ {2,}/);
    return { id, words: state.split(/[;,] /), decision, says };
  });
}

function caseOf(words: readonly string[]): Case {
  const of: Case = {
    cached: undefined,
    asked: { query: SEARCH, request: { directives: NO_DIRECTIVES, mayForceRefresh: false } },
    failed: undefined,
  };
  for (const word of words) {
    const apply = WORDS[word];
    if (apply === undefined) throw new Error(`the table has a word without a meaning: ${word}`);
    apply(of);
  }
  return of;
}

/** A decision in the words of the table: what is decided, and what Cache-Status says. */
function inWords(decision: Decision, { failed }: Case): { decision: string; says: string } {
  const failure: Record<string, string> = {
    [FAILURE.code]: "<failure>",
    [REFUSAL.code]: "<refusal>",
    [MISTAKE.code]: "<internal error>",
  };
  switch (decision.kind) {
    case "fetch":
      return { decision: "fetch", says: `fwd=${decision.why}` };
    case "refuse": {
      const { code } = decision.problem;
      return { decision: `refuse: ${decision.problem === failed ? failure[code] : code}`, says: "" };
    }
    case "serve":
    case "serveAndRefresh": {
      const { note } = decision;
      const detail = note !== undefined && note === failed?.code ? failure[note] : note;
      const says = detail === undefined ? "hit" : `detail=${detail}`;
      return { decision: decision.kind === "serve" ? "serve" : "serve and refresh", says };
    }
  }
}

const ROWS = rowsOfTable();

describe("the table in docs/internals/cache-policy.md", () => {
  it("has rows with unique ids, and uses every known word", () => {
    expect(ROWS.length).toBeGreaterThan(50);
    expect(new Set(ROWS.map(({ id }) => id)).size).toBe(ROWS.length);
    const used = new Set(ROWS.flatMap(({ words }) => words));
    expect(Object.keys(WORDS).filter((word) => !used.has(word))).toEqual([]);
  });

  it.each(ROWS.map((row) => [`${row.id}: ${row.words.join(", ")}`, row] as const))("%s", (_name, row) => {
    const of = caseOf(row.words);
    const decided = decide(of.cached, of.asked, of.failed, RULES, NOW);
    expect(inWords(decided, of)).toEqual({ decision: row.decision, says: row.says });
  });
});
