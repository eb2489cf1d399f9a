/** Whatever the state is, the sentences of the status page agree with it and with each other. */
import fc from "fast-check";
import { expect, it } from "vitest";

import type { Facts } from "../../src/admin/status/facts.ts";
import type { RecentProblem } from "../../src/admin/status/recent-problems.ts";
import { sentencesOf, shownOf } from "../../src/admin/status/sentence-table.ts";
import { PROBLEM_CODES } from "../../src/errors.ts";
import { RESOURCES } from "../../src/interface/resources.ts";
import { appWith, AT, factsWith, harmWith, originWith, WINDOW } from "../support/facts.ts";

const APPS = ["web", "ios", "feed", "report", "crawler", "other"];
const HOUR = 3_600_000;

const past = fc.oneof(fc.integer({ min: AT - HOUR, max: AT }), fc.integer({ min: AT - 60_000, max: AT }));
const harm: fc.Arbitrary<RecentProblem> = fc
  .record({
    app: fc.constantFrom(...APPS),
    what: fc.constantFrom(
      ...PROBLEM_CODES.filter((code) => /^upstream|exceeded|capacity|budget|internal/.test(code)),
    ),
    resource: fc.constantFrom(...RESOURCES),
    status: fc.constantFrom(200, 429, 500, 502, 503, 504),
    count: fc.integer({ min: 1, max: 5_000 }),
    times: fc.tuple(past, past),
  })
  .map(({ times, ...rest }) => ({
    ...harmWith(rest.app),
    ...rest,
    firstAt: Math.min(...times),
    lastAt: Math.max(...times),
  }));

const windows = fc.subarray(
  [
    WINDOW,
    { ...WINDOW, name: "1h", limit: 1_000, spent: 996, heldBack: 4, remaining: 0 },
    { ...WINDOW, name: "1d", limit: 20, spent: 40, remaining: 0, comesBack: [] },
    { ...WINDOW, name: "2d", emptyInMs: 2_700_000 },
  ],
  { minLength: 1 },
);
const circuits = fc.subarray(
  (
    [
      ["origin", "credentials", "open"],
      ["sold", "unavailable", "open"],
      ["listings", "failing", "half-open"],
      ["areas", "unreachable", "open"],
    ] as const
  ).map(([scope, cause, state]) => ({ scope, cause, state, since: AT - 79_000, until: AT + 20_000 })),
);
const origin = fc
  .record({
    mode: fc.constantFrom("alone", "shared", "joining", "degraded"),
    windows,
    circuits,
  })
  .map(originWith);

const STORES = [
  "Redis",
  "the ledger on disk",
  "the cache on disk",
  "the shared budget (api)",
  "the trace collector",
];
const outages = fc.subarray(
  STORES.map((what) => ({ what, cause: "timeout", meanwhile: "", since: AT - 300_000 })),
  { maxLength: 2 },
);
const answers = { calls: 2, failed: 1, meanMs: null, lastAnswerAt: AT - 5_000, lastFailureAt: AT - 6_000 };
const health = fc.constantFrom(
  { ...answers, lastFailure: "status 500", failingSince: null },
  { ...answers, lastFailure: "status 500", failingSince: AT - 79_000 },
);
const PER_DAY = { name: "per-day", limit: 300, windowSeconds: 86_400, remaining: 0, resetSeconds: 60 };

/** Each part often has the value of a healthy gateway. */
const facts: fc.Arbitrary<Facts> = fc
  .record({
    mode: fc.constantFrom("enforce", "enforce", "observe"),
    scope: fc.constantFrom("alone", "all", "cut-off"),
    outages,
    problems: fc.array(harm, { maxLength: 12 }),
    upstream: fc.record({ listings: health, sold: health, areas: health }, { requiredKeys: [] }),
    apps: fc
      .subarray(APPS)
      .map((spent) => APPS.map((app) => appWith(app, { shares: spent.includes(app) ? [PER_DAY] : [] }))),
    queue: fc.constantFrom(0, 40).map((interactive) => ({ api: { interactive }, images: {} })),
    budget: fc.record({ api: origin, images: origin }),
  })
  .map((fields) => factsWith(fields));

const numbersOf = (text: string): number[] =>
  [...text.matchAll(/\d[\d,]*/g)].map(([n]) => Number(n.replaceAll(",", "")));

it("never more than three, each with a remedy; a good one comes alone, and only if nothing is wrong", () => {
  fc.assert(
    fc.property(facts, (state) => {
      const sentences = shownOf(sentencesOf(state));
      const levels = sentences.map(({ level }) => level);
      expect(sentences.length).toBeGreaterThan(0);
      expect(sentences.length).toBeLessThanOrEqual(3);
      if (levels.includes("good")) {
        expect(levels).toEqual(["good"]);
        const { api, images } = state.budget;
        const isSpent = [api, images].some(
          ({ windows, mode }) => mode !== "joining" && windows.some(({ remaining }) => remaining < 1),
        );
        expect([state.outages, api.circuits, images.circuits, isSpent]).toEqual([[], [], [], false]);
      }
      // The worst first.
      expect(levels.join(" ")).toMatch(/^(good|(bad ?)*(warn ?)*)$/);
      for (const { text } of sentences) expect(text).toMatch(/^[^{}]{20,}[.]$/);
    }),
  );
});

it("the apps that a sentence names were hurt, each by one cause, and no earlier than it says", () => {
  fc.assert(
    fc.property(facts, (state) => {
      const sentences = sentencesOf(state);
      let named = 0;
      for (const { text } of sentences) {
        const [, who, what = "", since] =
          /^(.+?) gets? ([\w ]+) since (\d\d:\d\d:\d\d) UTC:/.exec(text) ?? [];
        if (who === undefined) continue;
        const [, names = who, more = "0"] = /^(.+) and (\d+) more apps?$/.exec(who) ?? [];
        const apps = names.split(/, | and /).map((name) => (name === "unidentified apps" ? "other" : name));
        const hurt = state.problems.filter(
          ({ firstAt }) => new Date(firstAt).toISOString().slice(11, 19) >= (since ?? ""),
        );
        for (const one of apps) expect(hurt.map((of) => of.app)).toContain(one);
        expect(apps.length).toBeLessThanOrEqual(3);
        expect(apps.length + Number(more)).toBeLessThanOrEqual(APPS.length);
        const statuses = what === "stale answers" ? [200] : numbersOf(what);
        for (const status of statuses) expect(hurt.map((of) => of.status)).toContain(status);
        expect(new Date(state.at).toISOString().slice(11, 19) >= (since ?? "")).toBe(true);
        named += apps.length + Number(more);
      }
      const harms = new Set(state.problems.map((of) => `${of.app} ${of.what} ${of.resource} ${of.status}`));
      expect(named).toBeLessThanOrEqual(harms.size);
    }),
  );
});

it("what it says about the budget are numbers of one window, and no two sentences contradict each other", () => {
  fc.assert(
    fc.property(facts, (state) => {
      const sentences = sentencesOf(state);
      const ids = sentences.map(({ id }) => id);
      for (const { id, text } of sentences) {
        const [, budget, name] = /the (image budget|budget) of (\w+)/.exec(text) ?? [];
        const of = budget === "image budget" ? state.budget.images : state.budget.api;
        const window = of.windows.find((one) => one.name === name);
        if (id.startsWith("budget-")) expect(window).toBeDefined();
        if (window === undefined) continue;
        const { limit, spent, remaining, emptyInMs } = window;
        const [, first, second] = /([\d,]+) of ([\d,]+)/.exec(text) ?? [];
        const shown = [first, second].map((n) => Number(n?.replaceAll(",", "")));
        expect(shown).toEqual([id === "budget-ends" ? remaining : spent, limit]);
        if (id === "budget-empty" || /next call is free/.test(text)) expect(remaining).toBe(0);
        if (id === "budget-ends") expect([emptyInMs, remaining > 0]).toEqual([expect.any(Number), true]);
      }
      // A budget without Redis is no matter of a spent window.
      if (sentences.some(({ key, hurt }) => key === "outage Redis" && hurt.length > 0))
        expect(ids).not.toContain("shared-budget");
      const refused = state.problems.filter(
        ({ what, lastAt }) => lastAt > AT - 60_000 && /capacity|quota|budget/.test(what),
      );
      if (ids.includes("budget-empty")) expect(refused).toEqual([]);
      expect(new Set(sentences.map(({ key }) => key)).size).toBe(sentences.length);
    }),
  );
});
