import { expect, it } from "vitest";

import { StoreUnavailable } from "../../src/errors.ts";
import { startAdminPort } from "../support/admin-port.ts";
import { post, problemCode } from "../support/ask.ts";
import { EXACT_PAGES, startGateway } from "../support/gateway.ts";
import { startUpstream } from "../support/upstream.ts";

const PATH = "/listings?areaId=76&limit=5";

it("/cache/entry shows the API's own explanation of a failure", async () => {
  const upstream = await startUpstream(
    (response) => void response.writeHead(405).end("FAILURE_METHOD - GET"),
  );
  const gateway = await startGateway({ env: { ...upstream.env, ...EXACT_PAGES } });
  await gateway.get(PATH);
  const failure = "the upstream answered 405: FAILURE_METHOD - GET";
  const says = `Not cached (not stored). The latest call failed: ${failure}.`;
  expect(await gateway.entryAt(PATH)).toMatchObject({ says, failure });
});

it("a purge that reaches only a part of its entries says so", async () => {
  let done = 0;
  const url = await startAdminPort({
    pages: { sourceOf: async (asked) => asked, blockKeysOf: () => ["block 1", "block 2"] },
    async purge() {
      if (++done > 2) throw new StoreUnavailable("no connection");
      return { epoch: done };
    },
  });
  const reply = await post(`${url}/cache/purge`, JSON.stringify({ url: "/areas" }));
  expect([reply.status, problemCode(reply)]).toEqual([503, "store-unavailable"]);
  expect(reply.json()).toMatchObject({ remedy: expect.stringMatching(/applied in part. Send it again/) });
});
