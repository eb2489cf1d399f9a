/** Mixed traffic of twelve apps: what it costs when pages are cut from blocks, and that every answer is right. */
import { expect, it } from "vitest";

import { listBody } from "../../src/sandbox/envelope.ts";
import { search } from "../../src/sandbox/search.ts";
import { startGateway } from "../support/gateway.ts";
import { createWorkload } from "../support/workload.ts";

it("1,000 requests need few calls, and every answer is the upstream's, byte for byte", async () => {
  const gateway = await startGateway();
  const { data } = gateway.sandbox;
  const areaIds = data.areas.map(({ record }) => record.serviceId).slice(0, 60);
  const pages = new Set<string>();
  for (const request of createWorkload({ seed: 1, requests: 1_000, searches: 40, areaIds })) {
    const { resource, filters, limit, offset, target, app } = request;
    const { status, text } = await gateway.get(target, { headers: { "x-app-id": app } });
    const found = search(data, resource, { ...filters, limit: String(limit), offset: String(offset) });
    // Not `toBe`, which would print hundreds of kilobytes.
    if (status !== 200 || text !== listBody(resource, found, "offset"))
      expect.unreachable(`${target} was answered with ${status} ${text.slice(0, 300)}`);
    pages.add(JSON.stringify([resource, filters, limit, offset]));
  }
  expect(gateway.sandbox.requests().length).toBeLessThan(pages.size / 5);
});
