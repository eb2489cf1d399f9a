import { describe, expect, it } from "vitest";

import { agesBetween, createServedAges } from "../../../src/admin/status/served-ages.ts";

const HOUR = 3_600_000;
const MINUTE = 60_000;

describe("the ages of cached answers", () => {
  it("are counted by hour and age group", () => {
    const ages = createServedAges(0);
    ages.count(0, 10);
    ages.count(MINUTE, 20);
    ages.count(MINUTE + 1, HOUR + 1);
    ages.count(400 * 24 * HOUR, 2 * HOUR);
    ages.count(2 * MINUTE, 30);
    const groups = (from: number, to: number): number[] =>
      agesBetween([ages.read()], from, to).groups.map(({ answers }) => answers);
    expect(groups(0, 3 * HOUR)).toEqual([2, 2, 0, 0, 0, 0, 0, 1]);
    expect(groups(0, HOUR)).toEqual([2, 1, 0, 0, 0, 0, 0, 0]);
    expect(groups(HOUR + 5, HOUR + 6)).toEqual([0, 1, 0, 0, 0, 0, 0, 0]);
    expect(agesBetween([ages.read()], 0, 3 * HOUR)).toMatchObject({
      answers: 5,
      oldestSeconds: 400 * 24 * 3_600,
    });
    const elsewhere = createServedAges(0);
    elsewhere.count(62_000, HOUR);
    expect(agesBetween([ages.read(), elsewhere.read()], HOUR, 2 * HOUR)).toMatchObject({
      answers: 2,
      oldestSeconds: 62,
    });
    expect(agesBetween([ages.read()], HOUR, 2 * HOUR)).toMatchObject({ answers: 1, oldestSeconds: 61 });
  });

  it("are forgotten after a month", () => {
    const ages = createServedAges(0);
    for (let hour = 0; hour < 31 * 24 + 5; hour++) ages.count(0, hour * HOUR);
    expect(ages.read().since).toBe(5 * HOUR);
    expect(agesBetween([ages.read()], 0, 1_000 * HOUR)).toMatchObject({ answers: 31 * 24 });
  });
});
