import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { PARAMETERS } from "../../src/interface/parameters.ts";
import { cacheKey } from "../../src/query/key.ts";
import { identityOf, type Meaning, plainTarget, randomMeanings, spell } from "../support/meanings.ts";
import { understood } from "../support/understood.ts";

const seed = fc.nat(0xffff_ffff);
const meaning = seed.map((number) => randomMeanings(number, 1)[0]).filter((found) => found !== undefined);

describe("one meaning, one key", () => {
  it("for any spelling", () => {
    fc.assert(
      fc.property(meaning, seed, (meant, spelling) => {
        const expected = understood(plainTarget(meant));
        expect(expected).not.toMatch(/^refused|^nothing/);
        expect(understood(spell(meant, spelling))).toBe(expected);
      }),
      { numRuns: 400 },
    );
  });

  it("also for unknown parameters that are dropped", () => {
    fc.assert(
      fc.property(meaning, seed, (meant, spelling) => {
        const known = new Set<string>(PARAMETERS[meant.resource].map(({ name }) => name));
        const documented = [...meant.parameters].filter(([name]) => known.has(name));
        const expected = understood(plainTarget({ ...meant, parameters: new Map(documented) }));
        expect(understood(spell(meant, spelling), { ignore: ["*"] })).toBe(expected);
      }),
      { numRuns: 200 },
    );
  });
});

describe("two meanings, two keys", () => {
  it("for any two meanings", () => {
    fc.assert(
      fc.property(seed, (number) => {
        const meanings = randomMeanings(number, 60);
        const keys = new Set(meanings.map((meant) => cacheKey("json", understood(plainTarget(meant)))));
        expect(keys.size).toBe(new Set(meanings.map(identityOf)).size);
      }),
    );
  });

  it("also for small differences", () => {
    fc.assert(
      fc.property(meaning, (meant) => {
        const text = understood(plainTarget(meant));
        for (const near of neighboursOf(meant)) {
          const target = plainTarget(near);
          expect([target, understood(target)]).not.toEqual([target, text]);
        }
      }),
      { numRuns: 400 },
    );
  });
});

/** What differs from a meaning in one parameter, or in the resource. Some of it is refused. */
function neighboursOf({ resource, parameters }: Meaning): Meaning[] {
  const changed: [string, string][][] = [];
  for (const [name, value] of parameters) {
    const others = [...parameters].filter(([given]) => given !== name);
    const values = [
      `${value}1`,
      `x${value}`,
      value.slice(0, -1),
      value.replace(",", ""),
      value.toUpperCase(),
    ];
    const names = [name.replace("min", "max"), name.toUpperCase(), `${name}s`];
    changed.push(others);
    for (const text of values) if (isOther(name, text, value)) changed.push([...others, [name, text]]);
    for (const text of names) if (!parameters.has(text)) changed.push([...others, [text, value]]);
  }
  const here = changed.map((pairs): Meaning => ({ resource, parameters: new Map(pairs) }));
  return [...here, { resource: resource === "sold" ? "areas" : "sold", parameters }];
}

/** Another value, and not merely another spelling: other blanks around it, a type in capitals. */
function isOther(name: string, text: string, value: string): boolean {
  if (text === value || !text.isWellFormed()) return false;
  if (name === "q") return text === text.trim() && text === text.normalize("NFC");
  return name !== "objectType" || text === text.toLowerCase();
}
