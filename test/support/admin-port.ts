/** An admin port without a gateway behind it: a test says what the parts answer. */
import { type AdminOptions, createAdminServer } from "../../src/admin/server.ts";
import { openSettings } from "../../src/config/load.ts";
import { systemClock } from "../../src/process/clock.ts";
import { createRouter } from "../../src/query/route.ts";
import { gatewayEnv } from "./gateway.ts";
import { serve } from "./serve.ts";
import { SILENT } from "./silent-observer.ts";

const unasked = (): Promise<never> => Promise.reject(new Error("not asked"));

/** @returns the address of the port, which closes when the test ends */
export async function startAdminPort(options: Partial<AdminOptions>): Promise<string> {
  const { config } = openSettings({ env: gatewayEnv(), readFile: () => "" }).first;
  const server = createAdminServer({
    usage: unasked,
    status: unasked,
    redact: String,
    purge: unasked,
    replicas: async () => [],
    warm: () => [],
    budgets: {
      describe: () => ({}),
      expect: () => ({ forMs: 0, why: "budget", refusal: undefined }),
      tryCircuits: () => [],
    },
    recorder: { missesOf: () => [] },
    renderMetrics: async () => ({ contentType: "text/plain", text: "" }),
    readiness: () => ({ isReady: true, says: "ready" }),
    reload: () => ({ kind: "applied", changes: [] }),
    random: { requestId: () => "request-1" },
    version: { version: "1", node: "v1" },
    observer: SILENT,
    route: createRouter(config.upstream),
    recordPath: config.upstream.recordPath,
    parse: config.query,
    pages: { sourceOf: async (asked) => asked, blockKeysOf: () => [] },
    inspect: async (_query, key) => ({ key, next: "fetch", why: "not stored", entry: null }),
    apps: { isListed: () => false, isKnown: () => false },
    limits: config.server,
    clock: systemClock,
    token: null,
    ...options,
  });
  return `http://127.0.0.1:${await serve(server)}`;
}
