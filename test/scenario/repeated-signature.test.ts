import { describe, expect, it } from "vitest";

import { startGateway, type TestGateway } from "../support/gateway.ts";
import { problemCode } from "../support/ask.ts";
import { startUpstream } from "../support/upstream.ts";

const PADDING = " ".repeat(200_000);

/** An upstream that puts its request into its answer. It sends the answer in two pieces, cut in the middle of the hash. */
async function startEcho(padding = ""): Promise<TestGateway> {
  const upstream = await startUpstream((response) => {
    const hash = new URLSearchParams(response.req.url).get("hash") ?? "";
    response.write(`{"count":0,"areas":[],${padding}"self":"${hash.slice(0, 20)}`);
    setImmediate(() => response.end(`${hash.slice(20)}"}`));
  });
  return await startGateway({ env: upstream.env, settings: 'upstream: { passThrough: ["/areas/*"] }' });
}

async function expectOneLine(gateway: TestGateway): Promise<void> {
  await gateway.logged("repeats our signature", '"level":"error"');
  expect(gateway.log.filter((line) => line.includes("An answer of the upstream repeats"))).toHaveLength(1);
  expect(gateway.log.join("")).not.toMatch(/[0-9a-f]{40}/);
}

describe("an answer that repeats the signature of its request", () => {
  it.each([
    ["to be cached", "/areas?q=a", {}],
    ["to be passed on with no-store", "/areas?q=a", { "cache-control": "no-store" }],
    ["on a path that is passed through", "/areas/7/near", {}],
  ])("(%s) is a problem, with one line in the log", async (_name, path, headers) => {
    const gateway = await startEcho();
    const reply = await gateway.get(path, { headers });
    expect([reply.status, problemCode(reply)]).toEqual([502, "upstream-invalid-response"]);
    expect(reply.text).not.toMatch(/[0-9a-f]{20}/);
    await expectOneLine(gateway);
    const onlyCached = await gateway.get("/areas?q=a", { headers: { "cache-control": "only-if-cached" } });
    expect(problemCode(onlyCached)).toBe("not-in-cache");
  });

  it.each(["unique", "hash"])(
    "is recognised by its %s, also in the explanation of an error",
    async (name) => {
      const upstream = await startUpstream((response) => {
        response.writeHead(400).end(`wrong ${new URLSearchParams(response.req.url).get(name)}`);
      });
      const gateway = await startGateway({ env: upstream.env });
      const reply = await gateway.get("/areas?q=a");
      expect(problemCode(reply)).toBe("upstream-rejected");
      expect(reply.text).not.toContain("wrong");
    },
  );

  it("late in a stream cuts the connection, and no part of the signature is sent", async () => {
    const gateway = await startEcho(PADDING);
    const pieces: string[] = [];
    const response = await fetch(`${gateway.url}/areas?q=a`, { headers: { "cache-control": "no-store" } });
    const read = async (): Promise<void> => {
      for await (const piece of response.body ?? []) pieces.push(Buffer.from(piece).toString());
    };
    expect(response.status).toBe(200);
    await expect(read()).rejects.toThrow();
    expect(pieces.join("")).toMatch(/^\{"count":0/);
    expect(pieces.join("")).not.toMatch(/[0-9a-f]{8}/);
    await expectOneLine(gateway);
  });
});
