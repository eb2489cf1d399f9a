/** The part of docs/http-conformance.md that lists the public suite by test id. */
import { readFileSync, writeFileSync } from "node:fs";

import { DEVIATIONS, FOR_BROWSERS, NOT_APPLICABLE, type Reason } from "./reasons.ts";
import type { SuiteTest } from "./suite.ts";

const PAGE = "docs/http-conformance.md";
const HEADING = "## The public suite, by test id";

/** What became of a test: `pass`, or the reason for a deviation, or why it does not apply. */
export type Verdict = string;

/** Why a test is not played; `undefined` if it is. */
export function notApplicable({ id, browser_only = false }: SuiteTest): Verdict | undefined {
  const reason = browser_only ? FOR_BROWSERS : reasonFor(id, NOT_APPLICABLE);
  return reason === undefined ? undefined : `Not applicable: ${reason}`;
}

/** @param trouble what was not as the suite expects; `undefined` if all was */
export function verdictOn({ id }: SuiteTest, trouble: string | undefined): Verdict {
  if (trouble === undefined) return "pass";
  const reason = reasonFor(id, DEVIATIONS);
  return reason === undefined ? `defect: ${trouble}` : `Deviation: ${reason}`;
}

function reasonFor(id: string, reasons: readonly Reason[]): string | undefined {
  return reasons.find(({ tests }) => tests.test(id))?.reason;
}

/** The verdicts that the page lists. */
export function listedVerdicts(): ReadonlyMap<string, Verdict> {
  const [, section = ""] = readFileSync(PAGE, "utf8").split(HEADING);
  const rows = [...section.matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)];
  return new Map(
    rows.flatMap(([, verdict = "", ids = ""]) =>
      [...ids.matchAll(/`([^`]+)`/g)].map(([, id = ""]) => [id, verdict.trim()] as const),
    ),
  );
}

/** Writes the verdicts into the page, over those of an earlier run. */
export function writeVerdicts(played: ReadonlyMap<string, Verdict>): void {
  const all = new Map([...listedVerdicts(), ...played]);
  const [before = ""] = readFileSync(PAGE, "utf8").split(HEADING);
  const verdicts = [...new Set(all.values())].toSorted(
    (one, other) => rank(one) - rank(other) || one.localeCompare(other),
  );
  const rows = verdicts.map((verdict) => {
    const ids = [...all].filter(([, its]) => its === verdict).map(([id]) => `\`${id}\``);
    return `| ${verdict} | ${ids.toSorted().join(" ")} |`;
  });
  writeFileSync(
    PAGE,
    `${before}${HEADING}\n\n${introduction(all)}\n\n| Result | Tests |\n|---|---|\n${rows.join("\n")}\n`,
  );
}

function rank(verdict: Verdict): number {
  return ["pass", "Deviation", "Not applicable"].findIndex((kind) => verdict.startsWith(kind));
}

function introduction(all: ReadonlyMap<string, Verdict>): string {
  const count = (kind: string): number =>
    [...all.values()].filter((verdict) => verdict.startsWith(kind)).length;
  return [
    "`npm run cache-tests -- DIR` plays [http-tests/cache-tests](https://github.com/http-tests/cache-tests) through a",
    "gateway. DIR is a checkout (last run: commit b55b8bd of July 2026). The suite's requests become searches for areas,",
    "and its responses come inside the interface's envelope. The run fails if a result differs from this list, or if a",
    "failure has no reason. Some of the suite's tests only ask what a cache does; they are listed with the others.",
    "",
    `${count("pass")} tests pass, ${count("Deviation")} deviate, ${count("Not applicable")} do not apply.`,
  ].join("\n");
}
