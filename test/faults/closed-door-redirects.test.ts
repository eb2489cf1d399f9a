/** The gateway follows no redirect: it would send the signature to another server, and trust that server's answer. */
import { expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { problemCode } from "../support/ask.ts";
import { startUpstream } from "../support/upstream.ts";

const WAYS = [
  ["an answer", "/areas?q=Nacka", {}],
  ["a thumbnail", "/cache/primary_7_10x10.jpg", {}],
  ["a stream", "/areas?q=Nacka", { "cache-control": "no-store" }],
] as const;

it.each(WAYS)("a redirect in place of %s is not followed", async (_way, path, headers) => {
  const elsewhere = await startUpstream();
  const statuses = [301, 302, 303, 307, 308];
  const upstream = await startUpstream((response, number) => {
    const location = `${elsewhere.env.UPSTREAM_URL}/areas?q=Nacka`;
    response.writeHead(statuses[number - 1] ?? 500, { location }).end("over there");
  });
  const gateway = await startGateway({ env: upstream.env, settings: "budget: { maxCoolOff: 1ms }" });
  for (const [index] of statuses.entries()) {
    const reply = await gateway.get(path, { headers });
    expect([reply.status, problemCode(reply)]).toEqual([502, "upstream-invalid-response"]);
    expect(reply.headers.location).toBeUndefined();
    expect(reply.text).not.toContain("127.0.0.1");
    expect([upstream.seen.length, elsewhere.connections()]).toEqual([index + 1, 0]);
  }
});
