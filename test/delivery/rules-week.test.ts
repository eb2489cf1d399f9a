/** The alert rules over generated series of an ordinary gateway, and in the first two minutes of real faults. */
import { expect, it } from "vitest";

import { alertsOver, callsWith, requestsOf, type Scraped } from "../support/ordinary-gateway.ts";

// The whole week: rules-week.long.ts.
it("a morning with an update fires no alert", () => {
  expect(alertsOver({ seed: 1, stepSeconds: 60, steps: 120, fromHour: 57 })).toEqual([]);
});

/** Every miss ends like this. */
function failing(status: number, problem: string, outcome = "failed"): (scraped: Scraped) => void {
  return (scraped) => {
    scraped.add(requestsOf("web", outcome, status), scraped.misses);
    scraped.add(`gateway_problems_total{problem="${problem}", status="${status}"}`, scraped.misses);
    scraped.add(callsWith("200"), -scraped.misses);
  };
}

const FAULTS: Readonly<Record<string, readonly [(scraped: Scraped) => void, readonly string[]]>> = {
  "the API refuses the key": [
    (scraped) => {
      failing(502, "upstream-authentication-failed")(scraped);
      scraped.add(callsWith("401"), scraped.misses);
      scraped.add("gateway_upstream_credentials_refused_total", scraped.misses);
    },
    ["GatewayErrors", "GatewayUpstreamAuthenticationFailing"],
  ],
  "the API answers 503": [
    (scraped) => {
      // Once the circuit is open, it refuses the calls.
      failing(503, "upstream-unavailable", "refused")(scraped);
      scraped.add('gateway_refused_total{app="web", reason="cool-off"}', scraped.misses);
      scraped.add(callsWith("503"), 2);
      scraped.set('gateway_circuit_state{circuit="api/all"}', 2);
    },
    ["GatewayErrors", "GatewayUpstreamDown"],
  ],
  "a hog spends the budget, and 70 % of all requests are refused": [
    (scraped) => {
      scraped.add(requestsOf("web", "refused", 429), 2 * scraped.requests);
      scraped.add('gateway_refused_total{app="web", reason="share"}', 2 * scraped.requests);
    },
    ["GatewayRefusing"],
  ],
  "DATA_DIR cannot be written": [
    (scraped) => scraped.set('gateway_ledger_durable{store="sqlite"}', 0),
    ["GatewayLedgerNotDurable"],
  ],
  "Redis is away": [
    (scraped) => {
      scraped.set('gateway_store_breaker_state{store="redis"}', 2);
      scraped.set("gateway_budget_known", 0);
    },
    ["GatewayRedisDegraded"],
  ],
};

it.each(Object.entries(FAULTS))(
  "within two minutes, %s: the right alerts fire, and no others",
  (_, [apply, alerts]) => {
    // On Monday at noon, ten minutes before the fault and two minutes after it.
    const monday = { seed: 2, stepSeconds: 30, steps: 20 + 4, fromHour: 12 };
    expect(alertsOver({ ...monday, fault: { step: 20, apply } })).toEqual(alerts);
  },
);
