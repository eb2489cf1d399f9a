import { describe, expect, it } from "vitest";

import { cacheStatus } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { NO_AREAS, signatureOf, startUpstream } from "../support/upstream.ts";

const HASH = "fedcba9876543210fedcba9876543210fedcba98";
const JPEG = Buffer.from([0xff, 0xd8, 0, 0xff, 0xd9]);
const UNIQUE = "an-old-client's-";
const SIGNED = `callerId=old-client&time=1600000000&unique=${encodeURIComponent(UNIQUE)}&hash=${HASH}`;

/** The parts of an old signature that must not appear anywhere. */
const TRACES = /old-client|1600000000|fedcba98/i;

/** Q is the question. */
const SPELLINGS = [
  `/areas?Q&${SIGNED}`,
  `/areas?${SIGNED}&Q`,
  // The time in milliseconds.
  `/areas?Q&${SIGNED.replace("0000000&", "0000000000&")}`,
  `/areas?Q&callerId=old-client&unique=x&hash=${HASH}`,
  "/areas?Q&callerId=&time=&unique=&hash=wrong",
  `/areas?${SIGNED}&Q&${SIGNED}`,
  `/areas?Q&CALLERID=old-client&Time=1600000000&Unique=x&HASH=${HASH.toUpperCase()}`,
  `/areas?Q&callerId[]=old-client&hash[]=${HASH}&unique%5B0%5D=x&time[a]=1`,
  `/areas?Q&c%61llerId=old-client&h%61sh=${HASH}&%75nique=x&%74ime=1`,
  `/areas?Q&+hash+=${HASH}&callerId%20=old-client`,
  `/areas?Q&${SIGNED}&key=old-client`,
];

describe("a client that still signs its requests", () => {
  it("is answered however it is written, and its signature is dropped", async () => {
    const upstream = await startUpstream();
    const gateway = await startGateway({ env: upstream.env });
    for (const [index, signature] of SPELLINGS.entries()) {
      const question = `/areas?q=${index}`;
      const reply = await gateway.get(signature.replace("Q", `q=${index}`));
      expect([signature, reply.status, reply.text]).toEqual([signature, 200, NO_AREAS]);
      expect(cacheStatus(reply)).toMatchObject({ fwd: "miss", key: `areas?q=${index}` });
      // The upstream request has the query and the gateway's own signature.
      expect(upstream.seen.slice(index).map((seen) => signatureOf(seen).question)).toEqual([question]);
      // It is the same query as without a signature.
      expect(cacheStatus(await gateway.get(question))).toMatchObject({ hit: true });
      expect(JSON.stringify(reply.headers)).not.toMatch(TRACES);
    }
    const { text: metrics } = await gateway.admin("/metrics");
    await gateway.logged('"outcome":"hit"');
    expect(JSON.stringify([upstream.seen, metrics, gateway.log])).not.toMatch(TRACES);
  });

  it.each([
    ["a record, the `?` forgotten", "/listings/7&", '{"listings":[{"serviceId":7}]}', "/listings/7"],
    ["a record", "/sold/7?", '{"sold":[{"serviceId":7}]}', "/sold/7"],
    ["a path passed through", "/areas/7/near?", '{"areas":[]}', "/areas/7/near"],
    [
      "a thumbnail, which is requested unsigned",
      "/cache/primary_7_9x9.jpg?",
      JPEG,
      "/cache/primary_7_9x9.jpg",
    ],
  ])("is answered for %s", async (_name, asked, body, question) => {
    const upstream = await startUpstream((response) => void response.end(body));
    const settings = 'upstream: { passThrough: ["/areas/*"] }';
    const gateway = await startGateway({ env: upstream.env, settings });
    for (const cacheControl of ["no-store", "max-age=0"]) {
      const headers = { "cache-control": cacheControl };
      expect((await gateway.get(asked + SIGNED, { headers })).status).toBe(200);
    }
    const questions = upstream.seen.map((seen) => (body === JPEG ? seen.target : signatureOf(seen).question));
    expect(questions).toEqual([question, question]);
  });
});
