import http from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";

import { PARAMETERS, type Parameter, type Shape } from "../../src/interface/parameters.ts";
import { exchangeRaw } from "../support/ask.ts";
import { createRandom, type TestRandom } from "../support/random.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { randomMeanings, spell, type Meaning } from "../support/meanings.ts";
import { problemCode } from "../support/reply.ts";

/** Another one each time; a failure shows it, and FUZZ_SEED repeats it. */
const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
const ROUNDS = 500;

/** Values that no reading of a shape allows, percent-encoded as they are sent. */
function badValues(shape: Shape): readonly string[] {
  const noNumber = ["x", "1x", "1e9", "0x10", "1,5", "%00", "%D9%A3", "1%202", "--1", "%2B-1", ".", "1.2.3"];
  switch (shape.kind) {
    case "text":
      return ["a%00b", "a%0D%0Ab", "a%7Fb", "%1B[31m"];
    case "switch":
      return ["2", "-1", "yes", "10", "0,1", "truefalse"];
    case "date":
      return ["2026", "20260230", "20261301", "2026-1-1", "2026-0101", "20260101T00", "-20260101", "x"];
    case "idSet":
      return ["x", "1,x", "-1", "1.5", "1;2", "1%7C2", "NaN1"];
    case "wordSet":
      return ["house", "villa,house", "villa;radhus", "1", "vil%00la", "%F0%9F%8F%A0"];
    case "tuple":
      return [
        "1",
        "1,2,3",
        "1,2,3,4,5",
        "a,b",
        "a,b,c,d",
        "200,1",
        "91,1,92,1",
        "1,181",
        "0,,0",
        "-91,0,0,0",
      ];
    case "integer":
    case "decimal": {
      const past = shape.max === undefined ? [] : [`${shape.max + 1}`, "99999999999999999999999"];
      const below = shape.min === undefined ? [] : [`${shape.min - 1}`];
      return [...noNumber, ...past, ...below, ...(shape.kind === "integer" ? ["1.5", "0.1"] : [])];
    }
  }
}

/** A proper question with one parameter spoilt; `undefined` where the random found none to spoil. */
function spoilt(meaning: Meaning, random: TestRandom): { target: string; parameter: string } {
  const parameter: Parameter = random.pick(PARAMETERS[meaning.resource]);
  // What is fit for one of the tuples is fit for another: a value counts as bad where its own count is wrong.
  const bad = random.pick(badValues(parameter.shape).filter((value) => !fitsTuple(parameter.shape, value)));
  const proper = spell(meaning, random.between(0, 1_000_000));
  return {
    target: `${proper}${/[?&]/.test(proper) ? "&" : "?"}${parameter.name}=${bad}`,
    parameter: parameter.name,
  };
}

function fitsTuple(shape: Shape, value: string): boolean {
  if (shape.kind !== "tuple") return false;
  const numbers = value.split(",").map((part) => (/^-?\d+$/.test(part) ? Number(part) : Number.NaN));
  return (
    numbers.length === shape.parts.length &&
    shape.parts.every(({ min = -Infinity, max = Infinity }, at) => {
      const number = numbers[at] ?? Number.NaN;
      return number >= min && number <= max;
    })
  );
}

async function startFuzzed(): Promise<{ gateway: TestGateway; agent: http.Agent; random: TestRandom }> {
  const gateway = await startGateway();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  onTestFinished(() => agent.destroy());
  return { gateway, agent, random: createRandom(SEED) };
}

describe("random bad input", () => {
  it("in the value of any parameter gets a problem that names it, without an upstream call", async () => {
    const { gateway, agent, random } = await startFuzzed();
    const meanings = randomMeanings(SEED, 200);
    for (let round = 0; round < ROUNDS; round++) {
      const { target, parameter } = spoilt(random.pick(meanings), random);
      const reply = await gateway.get(target, { agent });
      expect([SEED, target, reply.status]).toEqual([SEED, target, 400]);
      expect([target, problemCode(reply)]).toEqual([target, "invalid-query"]);
      const errors: unknown = Reflect.get(Object(reply.json()), "errors");
      expect([target, errors]).toEqual([
        target,
        expect.arrayContaining([
          expect.objectContaining({ parameter, expected: expect.stringMatching(/.{5,}/) }),
        ]),
      ]);
    }
    expect(gateway.sandbox.requests()).toEqual([]);
  });

  it("in the bytes of a request gets a valid answer or none, and the gateway still serves others", async () => {
    const { gateway, random } = await startFuzzed();
    const proper =
      "GET /areas?limit=x HTTP/1.1\r\nHost: gateway.example\r\nAccept: */*\r\nConnection: close\r\n\r\n";
    for (let round = 0; round < 200; round++) {
      const bytes = Buffer.from(proper, "latin1");
      for (let spoils = random.between(1, 3); spoils > 0; spoils--) {
        bytes[random.between(0, bytes.length - 1)] = random.pick([
          0, 1, 9, 10, 13, 32, 34, 58, 92, 127, 128, 195, 255,
        ]);
      }
      const raw = await exchangeRaw(gateway.port, bytes, { end: true });
      const sent = [SEED, bytes.toString("latin1")];
      expect([...sent, raw]).toEqual([...sent, expect.stringMatching(/^(HTTP\/1\.1 (200|4\d\d) |$)/)]);
      if (raw === "") continue;
      if (raw.startsWith("HTTP/1.1 200 ")) {
        // The name or the value of the parameter was changed into one that is allowed, and the answer was cached.
        expect(sent).not.toEqual([SEED, expect.stringMatching(/^GET \/areas\?limit=x /)]);
        continue;
      }
      expect([...sent, raw]).toEqual([...sent, expect.stringMatching(/^x-request-id: \S+\r$/im)]);
      expect([...sent, raw]).toEqual([
        ...sent,
        expect.stringMatching(/^content-type: application\/problem\+json\r$/im),
      ]);
      expect([...sent, raw]).toEqual([
        ...sent,
        expect.stringMatching(/"type":"urn:property-gateway:problem:/),
      ]);
    }
    // A spoiled name is an undocumented parameter, which is forwarded; a bad value never is.
    expect(gateway.sandbox.requests().filter(({ query }) => /(^|&)limit=x(&|$)/.test(query))).toEqual([]);
    expect((await gateway.get("/areas?q=Nacka")).status).toBe(200);
  });
});
