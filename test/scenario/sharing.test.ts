import http from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";

import { EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { cacheStatus } from "../support/reply.ts";

describe("many callers", () => {
  it("a thousand at once with different spellings of one uncached query need one upstream call", async () => {
    const gateway = await startGateway({
      env: { ...EXACT_PAGES, BUDGET_MAX_WAIT: "60s" },
      settings: "upstream: { headerTimeout: 1h, totalTimeout: 1h }",
    });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1000, maxFreeSockets: 1000 });
    onTestFinished(() => agent.destroy());
    gateway.sandbox.hold();
    const replies = Array.from({ length: 1000 }, (_, n) =>
      gateway.get(
        n % 2 === 0 ? "/listings?areaId=76,1&limit=50" : "/listings/?limit=050&areaId=1&areaId=76&offset=0",
        {
          agent,
          method: n % 5 === 1 ? "HEAD" : "GET",
          headers: {
            "accept-encoding": ["identity", "gzip", "br", "zstd"][n % 4] ?? "",
            accept: n % 3 === 0 ? "*/*" : "application/json",
            "x-app-id": `app-${n}`,
          },
        },
      ),
    );
    await gateway.sandbox.waitForRequests(1);
    await gateway.admitted();
    gateway.sandbox.release();
    const outcomes = (await Promise.all(replies)).map((reply) => {
      expect(reply.status).toBe(200);
      const { fwd, collapsed = false } = cacheStatus(reply);
      return [fwd, collapsed];
    });
    expect(outcomes.filter(([fwd]) => fwd === "miss")).toHaveLength(1000);
    expect(outcomes.filter(([, collapsed]) => collapsed)).toHaveLength(999);
    expect(new Set((await Promise.all(replies)).map(({ headers }) => headers.etag)).size).toBe(4);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });
});
