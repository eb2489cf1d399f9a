/** The alert rules over generated series of an ordinary gateway, and in the first two minutes of real faults. */
import { describe, expect, it } from "vitest";

import { callsWith, type Replica, requestsOf } from "../support/ordinary-gateway.ts";
import { alertsOver } from "../support/week-of-alerts.ts";

// The whole week: rules-week.long.ts.
it("a night with bulk work, and a morning with an update, fire no alert", () => {
  expect(alertsOver({ seed: 1, stepSeconds: 60, steps: 12 * 60, fromHour: 47 })).toEqual([]);
});

/** Every miss ends like this. */
function failing(status: number, problem: string): (replica: Replica) => void {
  return (replica) => {
    replica.add(requestsOf("web", "failed", status), replica.misses);
    replica.add(`gateway_problems_total{problem="${problem}", status="${status}"}`, replica.misses);
    replica.add(callsWith("200"), -replica.misses);
  };
}

const FAULTS: Readonly<Record<string, readonly [(replica: Replica) => void, readonly string[]]>> = {
  "the API refuses the key": [
    (replica) => {
      failing(502, "upstream-authentication-failed")(replica);
      replica.add(callsWith("401"), replica.misses);
      replica.add("gateway_upstream_credentials_refused_total", replica.misses);
    },
    ["GatewayErrors", "GatewayUpstreamAuthenticationFailing"],
  ],
  "the API answers 503": [
    (replica) => {
      failing(503, "upstream-unavailable")(replica);
      replica.add(callsWith("503"), 2);
      replica.set('gateway_circuit_state{circuit="api/all"}', 2);
    },
    ["GatewayErrors", "GatewayUpstreamDown"],
  ],
  "a hog spends the budget, and 70 % of all requests are refused": [
    (replica) => replica.add(requestsOf("web", "refused", 429), 2 * replica.requests),
    ["GatewayRefusing"],
  ],
  "DATA_DIR cannot be written": [
    (replica) => replica.set('gateway_ledger_durable{store="sqlite"}', 0),
    ["GatewayLedgerNotDurable"],
  ],
  "Redis is away": [
    (replica) => {
      replica.set('gateway_store_breaker_state{store="redis"}', 2);
      replica.set("gateway_budget_known", 0);
    },
    ["GatewayRedisDegraded"],
  ],
};

describe("within two minutes", () => {
  it.each(Object.entries(FAULTS))("%s: the right alerts fire, and no others", (_, [apply, alerts]) => {
    const stepSeconds = 30;
    const before = 60;
    const scrapesIn2Minutes = 4;
    const fault = { step: before, apply };
    // On Monday at noon.
    const steps = before + scrapesIn2Minutes;
    expect(alertsOver({ seed: 2, stepSeconds, steps, fromHour: 12, fault })).toEqual(alerts);
  });
});
