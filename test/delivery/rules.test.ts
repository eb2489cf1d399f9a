import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import { stringify } from "yaml";

import { ALERTS, CASE_FILES, RULE_FILE, RULE_GROUPS } from "../support/alert-rules.ts";
import { fileWith } from "../support/files.ts";
import { promtool } from "../support/tools.ts";

describe("the rules", () => {
  it("are what promtool takes for good", () => {
    const { status, output } = promtool("check", "rules", "--lint=all", "--lint-fatal", RULE_FILE);
    expect(status, output).toBe(0);
  });

  it("hold nothing that only Helm understands", () => {
    // Prometheus' own templates name a label or the value; those of Helm what is in the chart.
    const templates = readFileSync(RULE_FILE, "utf8").match(/\{\{.*?\}\}/g) ?? [];
    expect(templates.filter((text) => !/^\{\{ \$(labels\.\w+|value(?: \| \w+)?) \}\}$/.test(text))).toEqual(
      [],
    );
  });

  it("keep the labels cluster and namespace wherever they add up or compare series", () => {
    const expressions = RULE_GROUPS.flatMap(({ rules }) => rules.map(({ expr }) => expr));
    const labels = expressions.flatMap((expr) =>
      [...expr.matchAll(/\b(?:by|on)\s*\(([^)]*)\)/g)].map(([, text]) => text),
    );
    expect(labels.length).toBeGreaterThan(20);
    for (const text of labels) expect(text).toMatch(/^cluster, namespace, /);
    for (const expr of expressions) expect(expr).not.toMatch(/\b(?:sum|min|max|avg|count)\s*\(|without/);
  });

  it.each(CASE_FILES)("fire when they should, and only then: $file", ({ group, file }) => {
    // The rules of one group need no other group, and promtool evaluates every rule at every step.
    const rules = fileWith(stringify({ groups: RULE_GROUPS.filter(({ name }) => name === group) }));
    const cases = fileWith(readFileSync(file, "utf8").replace(/^rule_files: .*$/m, `rule_files: [${rules}]`));
    const { status, output } = promtool("test", "rules", cases);
    expect(status, output).toBe(0);
  });
});

describe.each(ALERTS)("$alert", ({ alert, labels, annotations }) => {
  const group = RULE_GROUPS.find(({ rules }) => rules.some((one) => one.alert === alert))?.name;
  const own = CASE_FILES.filter(({ group: name }) => group === name);
  const moments = own.flatMap((file) => file.moments).filter(({ alertname }) => alertname === alert);

  it("is tried with its group, where it fires and where it does not", () => {
    expect(moments.some(({ exp_alerts }) => exp_alerts.length > 0)).toBe(true);
    expect(moments.some(({ exp_alerts }) => exp_alerts.length === 0)).toBe(true);
  });

  it("says how bad it is, what it is, and where to read on", () => {
    expect(labels?.["severity"]).toMatch(/^(critical|warning|info)$/);
    expect(annotations?.["summary"]).toMatch(/^.{20,80}$/);
    expect(annotations?.["description"]).toMatch(/^.{60,}$/);
    expect(annotations?.["runbook"]).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
  });
});

it("the runbook explains every alert at its anchor, and nothing else: how bad it is, what it means, what to do", () => {
  const row = /^\| <a id="(\w+)"><\/a>(\w+) \((\w+)\) \| .{20,} \| .{20,} \|$/gm;
  const explained = [...readFileSync("docs/runbook.md", "utf8").matchAll(row)].map((found) =>
    found.slice(1).join(" "),
  );
  const alerts = ALERTS.map(({ alert, labels }) => `${alert.toLowerCase()} ${alert} ${labels?.["severity"]}`);
  expect(explained.toSorted()).toEqual(alerts.toSorted());
});
