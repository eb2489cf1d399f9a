/** The sentences of the status page, and the table of them in docs/runbook.md. */
import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { CONDITIONS } from "../../../src/admin/status/conditions.ts";
import { createSentenceLog } from "../../../src/admin/status/sentence-log.ts";
import type { Facts } from "../../../src/admin/status/facts.ts";
import { type Sentence, SENTENCES, sentencesOf, shownOf } from "../../../src/admin/status/sentence-table.ts";
import { ALERTS } from "../../support/alert-rules.ts";
import { appWith, AT, factsWith, harmWith, NO_REQUESTS, originWith, WINDOW } from "../../support/facts.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const SINCE = AT - 79_000;
const circuit = (cause: "credentials" | "unavailable" | "failing", scope: "origin" | "sold" = "origin") => ({
  scope,
  state: "open" as const,
  cause,
  since: SINCE,
  until: AT + 20_000,
});
const apiWith = (fields: Parameters<typeof originWith>[0]): Facts["budget"] => ({
  api: originWith(fields),
  images: originWith(),
});
const outage = (what: string, cause: string, since = SINCE) => ({
  what,
  cause,
  meanwhile: "It lasts.",
  since,
});
const SPENT = { ...WINDOW, spent: 60, remaining: 0 };
const REDUCED = harmWith("web", { what: "temporary-reduced-capacity" });
const SOON = { ...SPENT, comesBack: [{ calls: 1, inMs: 2_000 }] };
const failed = { calls: 1, failed: 1, meanMs: 9, lastAnswerAt: null, lastFailureAt: AT, failingSince: SINCE };

/** The sentence that some facts lead to. */
const CASES: Readonly<Record<string, Partial<Facts>>> = {
  "ios and web get 502 since 22:38:41 UTC: the API refuses our key. Put the right one into UPSTREAM_PRIVATE_KEY(_FILE); the gateway notices by itself.":
    {
      budget: apiWith({ circuits: [circuit("credentials")] }),
      problems: ["web", "ios"].map((app) =>
        harmWith(app, { status: 502, what: "upstream-authentication-failed" }),
      ),
    },
  "web gets 503 since 22:38:41 UTC: the API for sold records answers 503 and asks for a pause. The next try is in 20 s. Ask the API's owner if it lasts.":
    {
      budget: apiWith({ circuits: [circuit("unavailable", "sold")] }),
      problems: [harmWith("web", { resource: "sold" }), harmWith("ios", { resource: "sold", status: 200 })],
    },
  "web gets 503 since 22:39:00 UTC: the API answers 503 and asks for a pause. The next try is in 20 s. Ask the API's owner if it lasts.":
    {
      budget: apiWith({ circuits: [circuit("unavailable")] }),
      problems: [
        harmWith("web", { firstAt: AT - 60_000 }),
        harmWith("web", { what: "upstream-authentication-failed", status: 502, lastAt: AT - 80_000 }),
      ],
    },
  "a, b, c and 3 more apps get 502 or 504 since 22:38:41 UTC: most calls to the API fail. The next call is a try. Ask the API's owner if it lasts.":
    {
      budget: apiWith({ circuits: [{ ...circuit("failing"), state: "half-open" }] }),
      problems: ["a", "b", "c", "d", "e", "other"].map((app, at) =>
        harmWith(app, { count: 9 - at, status: at % 2 === 0 ? 502 : 504 }),
      ),
    },
  "unidentified apps get stale answers since 22:38:41 UTC: most calls to the API fail. The next try is in 20 s. Ask the API's owner if it lasts.":
    {
      budget: apiWith({ circuits: [circuit("failing")] }),
      problems: [harmWith("other", { status: 200, what: "upstream-error" })],
    },
  'web gets stale answers since 22:38:41 UTC: "The property service failed" (upstream-error). docs/runbook.md says more under GatewayErrors.':
    {
      upstream: { sold: { ...failed, lastFailure: "status 500" } },
      problems: [
        harmWith("web", { resource: "sold", status: 200, what: "upstream-error" }),
        harmWith("ios", { resource: "sold", lastAt: SINCE - 50_000, isAnswered: true }),
      ],
    },
  "web gets 502 since 22:38:41 UTC: the API refuses our key. Put the right one into UPSTREAM_PRIVATE_KEY(_FILE); the gateway notices by itself.":
    {
      problems: [
        harmWith("web", { status: 502, what: "upstream-authentication-failed" }),
        harmWith("ios", { status: 502, what: "upstream-authentication-failed", isAnswered: true }),
      ],
    },
  "No app is hurt by this so far, but since 22:38:41 UTC the ledger on disk does not work (database or disk is full). It lasts. docs/runbook.md lists causes.":
    { outages: [outage("the ledger on disk", "database or disk is full")] },
  "web gets 503 since 22:38:41 UTC: more calls count than the budget of 1m allows (40 of 20). If BUDGET was not lowered and budget.mode was not observe, look for another gateway that uses this account without this Redis or DATA_DIR.":
    { budget: apiWith({ windows: [{ ...SPENT, limit: 20, spent: 40 }] }), problems: [REDUCED] },
  "web gets 503 since 22:38:41 UTC: Redis does not work (connect ECONNREFUSED 127.0.0.1:6379). It lasts. docs/runbook.md lists causes.":
    {
      outages: [outage("Redis", "connect ECONNREFUSED 127.0.0.1:6379")],
      problems: [harmWith("web", { what: "budget-unavailable" })],
      budget: apiWith({ mode: "degraded", windows: [{ ...WINDOW, spent: 16, heldBack: 44, remaining: 0 }] }),
      scope: "cut-off",
    },
  "web gets 503 since 22:38:41 UTC: the shared budget is closed: this process has just started, or Redis has lost data. It opens by itself within the shortest window. If it lasts, check Redis and REPLICAS.":
    {
      problems: [harmWith("web", { what: "budget-unavailable" })],
      budget: apiWith({ mode: "degraded", windows: [{ ...SPENT, heldBack: 44 }] }),
    },
  "web gets 503 since 22:38:41 UTC: the shared budget does not work (NOPERM). It lasts. docs/runbook.md lists causes.":
    {
      outages: ["images", "api"].map((origin) => outage(`the shared budget (${origin})`, "NOPERM")),
      problems: [harmWith("web", { what: "budget-unavailable" })],
      budget: apiWith({ mode: "joining" }),
    },
  "hog gets 429 since 22:38:41 UTC: an app may use only its share of the budget. Raise the weight, or ask the owners to spread their searches.":
    {
      budget: apiWith({ windows: [SPENT] }),
      problems: [harmWith("hog", { what: "quota-exceeded", status: 429 })],
      apps: [appWith("hog", { cached: 10, fetched: 20, refused: 70 }), appWith("web")],
    },
  "feed gets 429 since 22:38:41 UTC: the calls of a day (perDay) are spent. The next one is free in 2 h. Raise perDay if more should be possible.":
    {
      problems: [harmWith("feed", { what: "quota-exceeded", status: 429 })],
      apps: [
        appWith("feed", {
          shares: [{ name: "per-day", limit: 300, windowSeconds: 86_400, remaining: 0, resetSeconds: 7_200 }],
        }),
      ],
    },
  "web gets 503 since 22:38:41 UTC: the budget of 1d is not enough (996 of 1,000 calls spent, 4 kept for other processes). The next call is free in 12 s. `usage` shows which app spends it: set its perDay, or agree on more calls and raise BUDGET.":
    {
      budget: apiWith({ windows: [SOON, { ...SPENT, name: "1d", limit: 1_000, spent: 996, heldBack: 4 }] }),
      problems: [REDUCED],
    },
  "web gets 503 since 22:38:41 UTC: the budget of 1m or budget.concurrency is not enough (10 of 60 calls spent). `usage` shows which app spends it: set its perDay, or agree on more calls and raise BUDGET.":
    { budget: apiWith({ windows: [WINDOW] }), problems: [REDUCED] },
  "No app is refused so far, but the budget of 1m has no call left (60 of 60 calls spent). The next call is free in 12 s. `usage` shows which app spends it: set its perDay, or agree on more calls and raise BUDGET.":
    { budget: apiWith({ windows: [SPENT] }) },
  "All apps will run out of calls in about 45 min at this rate: 50 of 60 are left in the budget of 1m. `usage` shows which app spends it: set its perDay, or agree on more calls and raise BUDGET.":
    { budget: apiWith({ windows: [{ ...WINDOW, emptyInMs: 2_700_000 }] }) },
  'web gets 500 since 22:38:41 UTC: "Internal error in the gateway" (internal-error). docs/runbook.md says more under GatewayErrors.':
    { problems: [harmWith("web", { what: "internal-error", status: 500 })] },
  "No request has ended since 21:40:00 UTC. `doctor --call` tries the key with one call.": {
    requests: NO_REQUESTS,
    upstream: {},
  },
  "All is well: no app is hurt, and the budget has room.": {
    problems: [
      harmWith("web", { firstAt: AT - 300_000, lastAt: AT - 90_000 }),
      harmWith("ios", { what: "budget-unavailable" }),
    ],
    budget: apiWith({ mode: "shared" }),
  },
};

it.each(Object.entries(CASES))("%s", (text, facts) => {
  expect(shownOf(sentencesOf(factsWith(facts))).map((sentence) => sentence.text)).toEqual([text]);
});

it.each([
  [
    "outage",
    {
      outages: [outage("the shared budget (api)", "", AT - 5_000)],
      budget: apiWith({ mode: "degraded" }),
    },
  ],
  ["api-failing", { budget: apiWith({ circuits: [circuit("failing")] }) }],
])("%s does not explain that a share was spent before it", (id, fault) => {
  const spent = { what: "quota-exceeded", lastAt: AT - 6_000 };
  const web = harmWith("web", { what: id === "api-failing" ? "upstream-unavailable" : "budget-unavailable" });
  const hog = harmWith("hog", { ...spent, status: 429 });
  const problems = [web, hog, harmWith("ios", { ...spent, status: 200 })];
  const found = sentencesOf(factsWith({ ...fault, problems }));
  expect(found.map((one) => `${one.id}: ${one.text.slice(0, 43)}`)).toEqual([
    expect.stringContaining(id),
    "share-spent: hog gets 429 since 22:38:41 UTC: an app may",
  ]);
});

it("calls in flight explain refusals in observe mode", () => {
  const observed = factsWith({ mode: "observe", budget: apiWith({ windows: [SPENT] }), problems: [REDUCED] });
  const text = expect.stringContaining("the budget of 1m or budget.concurrency is not enough");
  expect(sentencesOf(observed)[0]).toMatchObject({ id: "budget-spent", text });
});

it("the worst come first: errors, stale answers, other problems, then warnings", () => {
  const facts = factsWith({
    mode: "observe",
    outages: [outage("the cache on disk", "full"), outage("the ledger on disk", "full")],
    problems: [
      harmWith("ios", { what: "quota-exceeded", status: 200 }),
      harmWith("web", { what: "internal-error", status: 500 }),
    ],
  });
  const found = sentencesOf(facts).map(({ id, level }) => `${level} ${id}`);
  expect(found).toEqual([
    "bad errors",
    "bad share-spent",
    "bad outage",
    "warn minor-outage",
    "warn observed",
  ]);
  expect(shownOf(sentencesOf(facts))).toHaveLength(3);
});

it("what callers do not notice is a warning, and is not blamed for what another outage causes", () => {
  const found = sentencesOf(
    factsWith({
      outages: [outage("the trace collector", "gone", AT - 9_000_000), outage("Redis", "gone")],
      budget: apiWith({ mode: "degraded" }),
      problems: [harmWith("web", { what: "budget-unavailable" })],
    }),
  );
  const texts = found.map(({ level, text }) => `${level}: ${text.split(" does not work")[0]}`);
  expect(texts).toEqual([
    "bad: web gets 503 since 22:38:41 UTC: Redis",
    "warn: No app is hurt by this so far, but since 20:10:00 UTC the trace collector",
  ]);
});

/** The rows of the table in docs/runbook.md. */
const ROWS = [...readFileSync("docs/runbook.md", "utf8").matchAll(/^\| `([a-z-]+)` \| (.+) \| (.+) \|$/gm)];

it("docs/runbook.md has each sentence with its remedy", () => {
  expect(ROWS.map(([, id, says]) => [id, says])).toEqual(SENTENCES.map(({ id, says }) => [id, says]));
  expect(readFileSync("docs/runbook.md", "utf8")).toMatch(/`the shared budget …`.+`the trace collector`/s);
  expect(new Set(Object.keys(CONDITIONS))).toEqual(new Set(SENTENCES.map(({ id }) => id)));
  for (const [at, { todo }] of SENTENCES.entries()) expect(ROWS[at]?.[3]).toContain(todo || "Nothing");
});

it("an alert about the same cause uses the same words", () => {
  const linked = SENTENCES.flatMap(({ says, todo }, at) => {
    const [, alert] = /\[More\]\(#(\w+)\)/.exec(ROWS[at]?.[3] ?? "") ?? [];
    // Values differ, so only the words before them count.
    const [why = ""] = /^[^{(.]*/.exec(says.replace("{hurt} ", "")) ?? [];
    return alert === undefined ? [] : [{ alert, why: why.trim().toLowerCase(), todo }];
  });
  for (const [name, sentences] of Map.groupBy(linked, ({ alert }) => alert)) {
    const about =
      ALERTS.find(({ alert }) => alert.toLowerCase() === name)?.annotations?.["description"] ?? "";
    const isSame = sentences.some(
      ({ why, todo }) => about.toLowerCase().includes(why) && about.includes(todo),
    );
    expect([name, about, isSame]).toEqual([name, about, true]);
  }
});

it("the log has a line when a sentence becomes true, and one a minute after it was true for the last time", async () => {
  const clock = createFakeClock(AT);
  const lines: unknown[][] = [];
  const good = { id: "all-well", key: "all-well", level: "good", text: "" } as const;
  let now: readonly (Sentence & { key: string })[] = [];
  const say = (...line: unknown[]): unknown => lines.push(line);
  const { start, stop } = createSentenceLog(clock, say, () => now);
  start();
  for (const text of ["Requests wait 1 s.", "Requests wait 2 s."]) {
    now = [{ id: "queue", key: "queue", level: "warn", text }, good];
    await clock.advance(10_000);
  }
  now = [];
  await clock.advance(59_999);
  expect(lines).toEqual([["warn", "Requests wait 1 s.", { sentence: "queue" }]]);
  await clock.advance(5_000);
  stop();
  const over = ["info", "Over: Requests wait 1 s.", { sentence: "queue", forMs: 15_000 }];
  expect(lines.slice(1)).toEqual([over]);
});
