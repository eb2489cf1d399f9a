/**
 * The operators' port, wired.
 */
import type { Server } from "node:http";

import type { LedgerReader } from "./usage/ledger.ts";
import { reportUsage } from "./usage/usage-report.ts";
import { createInspect } from "./cache/inspect.ts";
import { StoreUnavailable } from "./cache/store/port.ts";
import type { Tiers } from "./cache/store/tiered.ts";
import { type Budgets, createExpect, describeBudgets } from "./draw-budgets.ts";
import { isOwnMachine } from "./admin/guard.ts";
import { type AdminOptions, createAdminServer } from "./admin/server.ts";
import { Problem } from "./errors.ts";
import type { Observer } from "./types.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { ParseOptions } from "./query/parse.ts";
import { createRouter } from "./query/route.ts";
import type { Surroundings } from "./surroundings.ts";

export interface AdminParts {
  readonly tiers: Tiers;
  readonly budgets: Budgets;
  readonly ledger: LedgerReader;
  readonly metrics: Metrics;
  readonly observer: Observer;
  readonly parse: ParseOptions;
  readonly warm: AdminOptions["warm"];
  readonly reload: AdminOptions["reload"];
  readonly readiness: AdminOptions["readiness"];
}

/** @returns the server, not yet listening */
export function drawAdmin({ config, settings, clock, random }: Surroundings, parts: AdminParts): Server {
  const { tiers, budgets, ledger, observer } = parts;
  const budget = settings.section("budget");
  const apps = settings.derive((now) => new Set(now.apps.map((app) => app.id)));
  const isForOwnMachine = isOwnMachine(config.admin.host);
  const isGuarded = config.admin.token !== null;
  if (!isGuarded && !isForOwnMachine) {
    observer.warn("The admin port is open to whoever reaches it, purges included; ADMIN_TOKEN guards it.", {
      host: config.admin.host,
    });
  }
  return createAdminServer({
    ...parts,
    renderMetrics: parts.metrics.render,
    route: createRouter(config.upstream),
    inspect: createInspect(tiers, () => settings.current().cache, clock.now),
    budget: () => describeBudgets(budgets, settings.current()),
    expect: createExpect(budgets, settings.current),
    get apps() {
      return apps();
    },
    usage: (query) =>
      reportUsage({ ...query, ledger, windows: { api: budget.limit, images: budget.images } }).catch(
        asProblem,
      ),
    limits: config.server,
    after: clock.after,
    token: config.admin.token?.reveal(),
    openMetrics: config.admin.openMetrics,
    ownMachineOnly: !isGuarded && isForOwnMachine,
    purge: (scope, hard) => tiers.purge(scope, hard).catch(asProblem),
    now: clock.now,
    requestId: random.requestId,
  });
}

function asProblem(error: unknown): never {
  if (error instanceof StoreUnavailable) throw new Problem("store-unavailable", { internal: error.message });
  throw error;
}
