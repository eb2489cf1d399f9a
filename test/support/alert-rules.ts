/** The rule file that comes with the gateway, and the cases in which its alerts are tried. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parse } from "yaml";

import type { Anything } from "./files.ts";

export const RULE_FILE = "deploy/prometheus/rules.yaml";
const CASES_DIR = "test/delivery/rules";

interface Rule {
  readonly expr: string;
  readonly [field: string]: Anything;
}

const ruleFile: { groups: { name: string; rules: Rule[] }[] } = parse(readFileSync(RULE_FILE, "utf8"));
export const RULE_GROUPS = ruleFile.groups;

export const ALERTS = RULE_GROUPS.flatMap(({ rules }) => rules.filter(({ alert }) => alert !== undefined));

/** Files for `promtool test rules`, by the group of alerts they try. */
export const CASE_FILES = readdirSync(CASES_DIR).map((name) => {
  const file = join(CASES_DIR, name);
  const { tests }: { tests: Record<"alert_rule_test", Anything[]>[] } = parse(readFileSync(file, "utf8"));
  return {
    // A group may have several files, as `answers.yaml` and `answers.day.yaml`: an evaluation interval is for a whole file.
    group: `property-gateway-${name.replace(/\..*$/, "")}`,
    file,
    /** At each of them an alert fires, or does not. */
    moments: tests.flatMap(({ alert_rule_test }) => alert_rule_test),
  };
});
