import { expect, it } from "vitest";

import { problemCode } from "../support/ask.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { startUpstream } from "../support/upstream.ts";

const NO_STORE = { "cache-control": "no-store" };
const QUICK = { settings: "upstream: { retryDelay: 1ms }" };

it("an upstream that refuses our key: callers see nothing of that, and the log says what to check", async () => {
  for (const [wrong, skewSeconds] of [
    [({ sandbox }: TestGateway) => sandbox.setCaller({ privateKey: "another" }), [0, -1]],
    [({ sandbox }: TestGateway) => sandbox.faults.add({ clockSkewSeconds: 7_200 }), [7_199, 7_200, 7_201]],
  ] as const) {
    const gateway = await startGateway(QUICK);
    wrong(gateway);
    const reply = await gateway.get("/areas?q=Nacka");
    expect([reply.status, problemCode(reply)]).toEqual([502, "upstream-authentication-failed"]);
    expect(reply.text).not.toMatch(/FAILURE|hash|callerId|127\.0\.0\.1/);
    expect(await gateway.logged('"level":"error"')).toMatchObject({
      msg: expect.stringMatching(/PRIVATE_KEY.*CALLER_ID.*clock/),
      status: 403,
      // `Date` has whole seconds.
      clockSkewSeconds: expect.toBeOneOf([...skewSeconds]),
    });
  }
});

it("an answer that arrives slowly ends after upstream.totalTimeout", async () => {
  const clock = createFakeClock();
  const pieces: (() => void)[] = [];
  const upstream = await startUpstream((response) => {
    response.flushHeaders();
    pieces.push(() => void response.write(" "));
  });
  const settings = "upstream: { bodyTimeout: 3s, totalTimeout: 8s }";
  const gateway = await startGateway({ env: upstream.env, clock, settings });
  const trickled = gateway.get("/areas?q=Nacka");
  // Two seconds between any two pieces: never as long as the upstream may be silent.
  for (let piece = 1; piece <= 4; piece++) {
    await clock.armed(3_000, piece);
    pieces[0]?.();
    await clock.armed(3_000, piece + 1);
    await clock.advance(2_000);
  }
  const reply = await trickled;
  expect([reply.status, problemCode(reply)]).toEqual([504, "upstream-timeout"]);
  expect((await gateway.logged('"msg":"upstream call"'))["status"]).toBe("total-timeout");
});

it.each([500, 503, 403, 405, 406, 302, 418])(
  "the upstream's error text with status %i is in no answer and in no log line",
  async (status) => {
    const upstream = await startUpstream((response) => {
      response.statusCode = status;
      response.end("FAILURE_INTERNAL - db7.internal.example is down");
    });
    const gateway = await startGateway({ env: upstream.env, ...QUICK });
    for (const headers of [{}, NO_STORE]) {
      const reply = await gateway.get("/areas?q=Nacka", { headers });
      expect(reply.status).toBeOneOf([502, 503]);
      expect(reply.text).not.toMatch(/internal\.example|FAILURE/);
    }
    expect(gateway.log.join("")).not.toMatch(/internal\.example|FAILURE/);
  },
);

/** A redirect would lead the signature to another server, whose answer would be trusted. */
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
