/** The rule file that comes with the gateway, and the cases in which its alerts are tried. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parse } from "yaml";

export const RULE_FILE = "deploy/prometheus/rules.yaml";
const CASES_DIR = "test/delivery/rules";

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface RuleGroup {
  readonly name: string;
  readonly rules: readonly Rule[];
}

export interface Alert extends Rule {
  readonly alert: string;
}

/** A moment at which an alert fires, or does not. */
interface Moment {
  readonly alertname: string;
  readonly exp_alerts: readonly unknown[];
}

const ruleFile: { groups: RuleGroup[] } = parse(readFileSync(RULE_FILE, "utf8"));
export const RULE_GROUPS: readonly RuleGroup[] = ruleFile.groups;

export const ALERTS: readonly Alert[] = RULE_GROUPS.flatMap(({ rules }) =>
  rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert }])),
);

/** Files for `promtool test rules`, by the group of alerts they try. */
export const CASE_FILES: readonly {
  readonly group: string;
  readonly file: string;
  readonly moments: readonly Moment[];
}[] = readdirSync(CASES_DIR).map((name) => {
  const file = join(CASES_DIR, name);
  const { tests }: { tests: { alert_rule_test: Moment[] }[] } = parse(readFileSync(file, "utf8"));
  return {
    // A group may have several files, as `answers.yaml` and `answers.day.yaml`: an evaluation interval is for a whole file.
    group: `property-gateway-${name.replace(/\..*$/, "")}`,
    file,
    moments: tests.flatMap(({ alert_rule_test }) => alert_rule_test),
  };
});
