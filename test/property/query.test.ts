import fc from "fast-check";
import { expect, it } from "vitest";

import { type Meaning, plainTarget, randomMeaning, spell } from "../support/meanings.ts";
import { understood } from "../support/understood.ts";

const seed = fc.nat(0xffff_ffff);
const meaning = seed.map(randomMeaning);

it("one meaning has one key, for any spelling", () => {
  fc.assert(
    fc.property(meaning, seed, (meant, spelling) => {
      const expected = understood(plainTarget(meant));
      expect(expected).not.toMatch(/^refused|^nothing/);
      expect(understood(spell(meant, spelling))).toBe(expected);
    }),
    { numRuns: 400 },
  );
});

it("two meanings have two keys, for small differences", () => {
  fc.assert(
    fc.property(meaning, (meant) => {
      const text = understood(plainTarget(meant));
      for (const near of neighboursOf(meant)) {
        const target = plainTarget(near);
        expect([target, understood(target)]).not.toEqual([target, text]);
      }
    }),
    { numRuns: 150 },
  );
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
