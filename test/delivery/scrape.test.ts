import { expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { BUSY_APPS, startBusy } from "../support/busy-gateway.ts";
import { METRICS } from "../../src/telemetry/metric-table.ts";
import { scrape, strangersAmong } from "../support/exposition.ts";
import { promtoolOn } from "../support/tools.ts";

it("a real scrape passes promtool's checks, and shows every metric of the catalogue as it is described, and nothing else", async () => {
  const { gateway, traffic } = await startBusy();
  await traffic();
  await traffic();
  const { text } = await ask(`${gateway.adminUrl}/metrics`);
  expect(promtoolOn(text, "check", "metrics")).toEqual({ status: 0, output: "" });
  expect(text.match(/(?<=^# (?:HELP|TYPE) ).*$/gm)?.toSorted()).toEqual(
    METRICS.flatMap(({ name, help, type }) => [`${name} ${help}`, `${name} ${type}`]).toSorted(),
  );
  expect(strangersAmong(await scrape(gateway), BUSY_APPS)).toEqual([]);
});
