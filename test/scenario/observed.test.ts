import { expect, it } from "vitest";

import type { Fault } from "../../src/sandbox/control/faults.ts";
import { exchangeRaw } from "../support/ask.ts";
import { CALLER, startGateway } from "../support/gateway.ts";
import { temporaryDirectory } from "../support/files.ts";

const PATH = "/listings?areaId=76&limit=5";

const HASH = "fedcba9876543210fedcba9876543210fedcba98";
const PATHS = [
  PATH,
  `${PATH}&hash=${HASH}&unique=0123456789abcdef&callerId=old&time=1`,
  `${PATH}&HASH=${HASH}`,
  `${PATH}&key=${CALLER.privateKey}`,
  `${PATH}&apiKey=${CALLER.privateKey}`,
  `/listings/1&hash=${HASH}`,
  `/nowhere?hash=${HASH}`,
  `/listings?limit=501&hash=${HASH}`,
  "/sold/999999999",
];

// A short timeout is harmless where every call times out.
it.each<[Fault, string]>([
  [{}, ""],
  [{ status: 500 }, ""],
  [{ status: 403 }, ""],
  [{ wrongJson: true }, ""],
  [{ hang: "headers" }, ", connectTimeout: 40ms, headerTimeout: 40ms, totalTimeout: 100ms"],
  [{ cutBody: true }, ""],
  [{ disconnect: true }, ""],
])(
  "no secret is in a log line, header, body, metric or upstream request when the upstream does %o",
  async (fault, timeouts) => {
    const gateway = await startGateway({
      settings: `upstream: { retryDelay: 1ms${timeouts} }\nlog: { level: trace }`,
    });
    gateway.sandbox.faults.add(fault);
    const outputs: string[] = [];
    for (const path of PATHS) {
      for (const cacheControl of ["max-age=0", "no-store"]) {
        const target = `${path}${path.includes("?") ? "&" : "?"}n=${outputs.length}`;
        const reply = await gateway.get(target, { headers: { "cache-control": cacheControl } });
        outputs.push(JSON.stringify(reply.headers) + reply.text);
      }
    }
    outputs.push(await exchangeRaw(gateway.port, `GET /areas?hash=${HASH} HTTP/9\r\nHost: x\r\n\r\n`));
    for (const path of ["/metrics", "/status", `/cache/history?url=${encodeURIComponent(PATH)}`])
      outputs.push((await gateway.admin(path)).text);
    await gateway.stop();
    outputs.push(JSON.stringify(gateway.sandbox.requests()), ...gateway.log);

    const messages = gateway.log.map((text): unknown => Reflect.get(Object(JSON.parse(text)), "msg"));
    expect(messages.filter((msg) => msg === "request")).toHaveLength(PATHS.length * 2);
    expect(messages).toContain("upstream call");
    const all = outputs.join("\n");
    expect(all).not.toContain(CALLER.privateKey);
    expect(all).not.toMatch(/hash(=|%3D)/i);
    expect(all).not.toMatch(/\b[0-9a-f]{40}\b/i);
    expect(all).not.toContain("0123456789abcdef");
  },
);

it("the metrics of the disk are shown if there is a data directory, with times in seconds", async () => {
  const own = /^gateway_(ledger_durable|store_breaker_state)\{store="sqlite"\} ./gm;
  for (const [DATA_DIR, shown] of [
    [temporaryDirectory(), 2],
    ["", 0],
  ] as const) {
    const { admin, get, metric } = await startGateway({ env: { DATA_DIR } });
    expect([...(await admin("/metrics")).text.matchAll(own)]).toHaveLength(shown);
    await get("/areas?q=Nacka");
    const took = 'gateway_store_operation_duration_seconds_sum{store="sqlite",operation="get"}';
    expect(await metric(took)).toBeLessThan(performance.now() / 1000);
  }
});
