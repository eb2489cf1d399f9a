/** Which alerts fire over generated series. */
import { join } from "node:path";

import { stringify } from "yaml";

import { RULE_FILE } from "./alert-rules.ts";
import { fileWith } from "./files.ts";
import { type Ordinary, ordinarySeries } from "./ordinary-gateway.ts";
import { promtool } from "./tools.ts";

/** @returns the names of the alerts that fired at any time */
export function alertsOver(ordinary: Ordinary): string[] {
  const { stepSeconds, steps } = ordinary;
  const test = {
    interval: `${stepSeconds}s`,
    input_series: ordinarySeries(ordinary),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[7d]))',
        eval_time: `${steps * stepSeconds}s`,
        // Never true: promtool then prints what it found.
        exp_samples: [{ labels: '{alertname="none"}', value: 0 }],
      },
    ],
  };
  const rules = {
    rule_files: [join(process.cwd(), RULE_FILE)],
    evaluation_interval: `${stepSeconds}s`,
    tests: [test],
  };
  const { output } = promtool("test", "rules", fileWith(stringify(rules, { lineWidth: 0 })));
  const [, got] = /^\s+got: ?(.*)$/m.exec(output) ?? [];
  if (got === undefined) throw new Error(output);
  return [...got.matchAll(/alertname="(\w+)"/g)].flatMap(([, name]) => name ?? []).toSorted();
}
