/**
 * The callers' port does not show whether a guess is one of the gateway's secrets. A secret is replaced by a random text
 * of the same form before anything reads it (src/query/credentials.ts). So it gets the answer of a wrong guess, and is
 * neither sent upstream nor stored nor logged.
 */
import { describe, expect, it } from "vitest";

import { ask, exchangeRaw, type Reply } from "../support/ask.ts";
import { CALLER, startGateway, type TestGateway } from "../support/gateway.ts";

const TOKEN = "t0ken-that.nobody_may~ever/see+==";
const SETTINGS = 'upstream: { passThrough: ["/areas/*"] }\nlog: { level: trace }';

/** A guess that is as long, and as good to look at. */
function wrong(secret: string): string {
  return secret.replace("nobody", "somebo");
}

function start(settings = SETTINGS): Promise<TestGateway> {
  return startGateway({ settings, env: { ADMIN_TOKEN: TOKEN } });
}

/** Everything in a response that could differ between two guesses. */
function tellsOf({ status, headers, text }: Reply, guess: string): string {
  const { date: _date, "x-request-id": _id, ratelimit: _left, ...rest } = headers;
  // Which second it is may be another for each.
  const said = JSON.stringify([status, { ...rest, age: "" }, text]).replaceAll(/(ttl|max-age)=\d+/g, "$1");
  expect(said).not.toContain(guess);
  return said;
}

/** The secret is neither kept nor passed on. */
async function expectNowhere(gateway: TestGateway, secret: string): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}` };
  const metrics = (await ask(`${gateway.adminUrl}/metrics`, { headers })).text;
  const upstream = JSON.stringify(gateway.sandbox.requests());
  for (const guess of [secret, encodeURIComponent(secret)]) {
    expect(gateway.log.join("")).not.toContain(guess);
    expect(metrics).not.toContain(guess);
    expect(upstream).not.toContain(guess);
  }
}

const PLACES: Record<string, (guess: string) => string> = {
  "a number": (guess) => `/listings?limit=${guess}`,
  "a list of ids": (guess) => `/sold?areaId=${guess}`,
  "a word": (guess) => `/listings?objectType=${guess}`,
  "a date": (guess) => `/listings?minPublished=${guess}`,
  "a number given twice": (guess) => `/listings?limit=5&limit=${guess}`,
  "free text": (guess) => `/areas?q=${guess}`,
  "free text with more around it": (guess) => `/areas?q=my+key+is+${guess}`,
  "an undocumented parameter": (guess) => `/listings?limit=3&x=${guess}`,
  "a parameter named as keys are": (guess) => `/listings?limit=3&apiKey=${guess}`,
  "an ignored parameter": (guess) => `/listings?limit=3&key=${guess}`,
  "a signature": (guess) => `/listings?limit=3&hash=${guess}`,
  "a parameter's name": (guess) => `/listings?limit=3&${guess}=1`,
  "a name alone": (guess) => `/listings?limit=3&${guess}`,
  "what cannot be decoded": (guess) => `/listings?limit=3&x=${guess}%zz`,
  "the path of a record": (guess) => `/listings/${guess}`,
  "the path of nothing": (guess) => `/${guess}`,
  "the path of a thumbnail": (guess) => `/cache/primary_${guess}_10x10.jpg`,
  "a path that is passed through": (guess) => `/areas/${guess}/near`,
  "a parameter that is passed through": (guess) => `/areas/76/near?x=${guess}`,
  "what may come from the cache alone": (guess) => `/areas?limit=1&q=${guess}`,
};

describe.each([
  ["private key", CALLER.privateKey],
  ["admin token", TOKEN],
])("a guess at the %s", (_secret, secret) => {
  it.each(Object.entries(PLACES))("as %s gets the same answer as a wrong guess", async (_place, target) => {
    const gateway = await start();
    const guesses = [wrong(secret), secret];
    for (const options of [{}, { headers: { "cache-control": "only-if-cached" } }, {}]) {
      const told: string[] = [];
      for (const guess of guesses) {
        // The first of each is answered as the second: what one has stored is no hit for the other.
        await gateway.get(target(encodeURIComponent(guess)), options);
        told.push(tellsOf(await gateway.get(target(encodeURIComponent(guess)), options), guess));
      }
      expect(told[1]).toBe(told[0]);
    }
    await expectNowhere(gateway, secret);
  });

  it.each(["drop", "reject"])(
    "gets the same answer as a wrong guess with query.unknown: %s",
    async (unknown) => {
      const gateway = await start(`${SETTINGS}\nquery: { unknown: ${unknown}, ignored: [] }`);
      const guesses = [wrong(secret), secret];
      for (const target of Object.values(PLACES)) {
        const told: string[] = [];
        for (const guess of guesses) {
          await gateway.get(target(encodeURIComponent(guess)));
          told.push(tellsOf(await gateway.get(target(encodeURIComponent(guess))), guess));
        }
        expect(told[1]).toBe(told[0]);
      }
      await expectNowhere(gateway, secret);
    },
  );

  it.each([
    "X-App-Id",
    "Authorization",
    "Cookie",
    "User-Agent",
    "Referer",
    "If-None-Match",
    "Prefer",
    "Accept",
    "Accept-Encoding",
    "X-Request-Deadline-Ms",
  ])("in the header %s gets the same answer as a wrong guess", async (name) => {
    const gateway = await start();
    await gateway.get("/areas?q=Nacka");
    const guesses = [wrong(secret), secret];
    const told: string[] = [];
    for (const guess of guesses) {
      const value = name === "Authorization" ? `Bearer ${guess}` : guess;
      told.push(tellsOf(await gateway.get("/areas?q=Nacka", { headers: { [name]: value } }), guess));
    }
    expect(told[1]).toBe(told[0]);
    await expectNowhere(gateway, secret);
  });

  it("as a request id gets the same answer as a wrong guess, and is not in the log", async () => {
    const gateway = await start();
    const replies = [wrong(secret).replaceAll("~", "-"), secret].map((id) =>
      exchangeRaw(
        gateway.port,
        `GET /areas?limit=x HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n`,
      ),
    );
    for (const reply of await Promise.all(replies)) expect(reply).toMatch(/^HTTP\/1\.1 400 /);
    expect(gateway.log.join("")).not.toContain(secret);
  });
});

describe("a URL full of mistakes", () => {
  it("gets the first twenty and the number of the others, in a small response", async () => {
    const gateway = await start();
    const mistakes = Array.from({ length: 900 }, () => "limit=a").join("&");
    const reply = await gateway.get(`/listings?${mistakes}`);
    expect(reply.status).toBe(400);
    const { errors, moreErrors, detail }: Record<string, unknown> = Object(reply.json());
    expect(errors).toHaveLength(20);
    expect(moreErrors).toBe(880);
    expect(detail).toBe("900 parameters do not have their documented form; the first 20 are listed.");
    expect(reply.body.length).toBeLessThan(4_000);
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

  it("gets no number of others if all are listed", async () => {
    const gateway = await start();
    const reply = await gateway.get(`/listings?${Array.from({ length: 20 }, () => "limit=a").join("&")}`);
    expect(Object(reply.json())).not.toHaveProperty("moreErrors");
    expect(Object(reply.json())).toHaveProperty("errors.length", 20);
  });
});
