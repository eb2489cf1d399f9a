import { expect, it } from "vitest";

import { problemCode } from "../support/ask.ts";
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
