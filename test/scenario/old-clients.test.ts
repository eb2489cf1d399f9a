import { expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { signatureOf, startUpstream } from "../support/upstream.ts";

const HASH = "fedcba9876543210fedcba9876543210fedcba98";
const JPEG = Buffer.from([0xff, 0xd8, 0, 0xff, 0xd9]);
const UNIQUE = "an-old-client's-";
const SIGNED = `callerId=old-client&time=1600000000&unique=${encodeURIComponent(UNIQUE)}&hash=${HASH}`;

/** The parts of an old signature that must not appear anywhere. */
const TRACES = /old-client|1600000000|fedcba98/i;

it.each([
  ["a record, the `?` forgotten", "/listings/7&", '{"listings":[{"serviceId":7}]}', "/listings/7"],
  ["a record", "/sold/7?", '{"sold":[{"serviceId":7}]}', "/sold/7"],
  ["a path passed through", "/areas/7/near?", '{"areas":[]}', "/areas/7/near"],
  ["a thumbnail, which is requested unsigned", "/cache/primary_7_9x9.jpg?", JPEG, "/cache/primary_7_9x9.jpg"],
])("the signature of a client that still signs is dropped: %s", async (_name, asked, body, question) => {
  const upstream = await startUpstream((response) => void response.end(body));
  const settings = 'upstream: { passThrough: ["/areas/*"] }';
  const gateway = await startGateway({ env: upstream.env, settings });
  for (const cacheControl of ["no-store", "max-age=0"]) {
    const headers = { "cache-control": cacheControl };
    expect((await gateway.get(asked + SIGNED, { headers })).status).toBe(200);
  }
  const questions = upstream.seen.map((seen) => (body === JPEG ? seen.target : signatureOf(seen).question));
  expect(questions).toEqual([question, question]);
  expect(JSON.stringify([upstream.seen, gateway.log])).not.toMatch(TRACES);
});
