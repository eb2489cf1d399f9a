import { describe, expect, it } from "vitest";

import type { Wish } from "../../../src/ratelimit/allowance.ts";
import { createEnds, endReport, unsentReport } from "../../../src/ratelimit/ends.ts";
import { createLateSends } from "../../../src/ratelimit/late-sends.ts";
import type { SendEnd } from "../../../src/types.ts";

const NOW = 1_000_000;
const WISH: Wish = { app: "a", priority: "interactive", resource: "sold", cause: "miss", query: "q" };
const SLOW_DOWN = { cause: "too-many-requests", forMs: 5_000 } as const;

const endOf = (status: SendEnd["status"], slowDown?: SendEnd["slowDown"]): SendEnd => ({
  status,
  arrivedAfterMs: 20,
  durationMs: 70,
  ...(slowDown && { slowDown }),
});

describe("how the end of a send is reported", () => {
  it.each<[string, SendEnd, { status: string; isAnswered: boolean; slowDown: SendEnd["slowDown"] }]>([
    ["an answer", endOf(200), { status: "200", isAnswered: true, slowDown: undefined }],
    ["an answer that is a failure", endOf(500), { status: "500", isAnswered: true, slowDown: undefined }],
    ["no answer", endOf("reset"), { status: "reset", isAnswered: false, slowDown: undefined }],
    [
      "an answer that asks to slow down",
      endOf(429, SLOW_DOWN),
      { status: "429", isAnswered: false, slowDown: SLOW_DOWN },
    ],
  ])("%s", (_name, end, expected) => {
    expect(endReport({ id: "1", wish: WISH }, end)).toEqual({
      id: "1",
      app: "a",
      resource: "sold",
      durationMs: 70,
      isUnsent: false,
      ...expected,
    });
  });

  it("one that never went", () => {
    expect(unsentReport("1", "a", "sold")).toMatchObject({
      status: "unsent",
      isUnsent: true,
      isAnswered: false,
    });
  });
});

describe("ends that are still to be told", () => {
  it("are told in order with how long ago each arrived, until they have been", () => {
    const ends = createEnds();
    ends.add(unsentReport("1", "a", "sold"), NOW - 300);
    ends.add(unsentReport("2", "a", "sold"), NOW - 100);
    const told = ({ reports }: ReturnType<typeof ends.next>): unknown =>
      reports.map(({ id, sinceArrivalMs }) => [id, sinceArrivalMs]);
    expect(told(ends.next(NOW))).toEqual([
      ["1", 300],
      ["2", 100],
    ]);
    // It did not come through: they are told again, and are older by then.
    const again = ends.next(NOW + 50);
    expect(told(again)).toEqual([
      ["1", 350],
      ["2", 150],
    ]);
    // One that comes meanwhile is not lost.
    ends.add(unsentReport("3", "a", "sold"), NOW);
    again.done();
    expect(ends.size).toBe(1);
    expect(told(ends.next(NOW + 50))).toEqual([["3", 50]]);
  });

  it("are told a hundred at a time", () => {
    const ends = createEnds();
    for (let index = 0; index < 250; index++) ends.add(unsentReport(`${index}`, "a", "sold"), NOW);
    const lengths: number[] = [];
    while (ends.size > 0) {
      const { reports, done } = ends.next(NOW);
      lengths.push(reports.length);
      done();
    }
    expect(lengths).toEqual([100, 100, 50]);
  });
});

describe("what was sent while cut off", () => {
  const sent = { id: "1", wish: WISH, limits: "10/4000", sentAt: NOW, until: NOW + 5_000 };

  it("is told as arriving as late as it can, and with no end, while it is on its way", () => {
    const late = createLateSends();
    late.sent(sent);
    expect(late.known(NOW + 1_000)).toEqual([
      { id: "1", ageMs: -4_000, late: { wish: WISH, limits: "10/4000", sentMs: 1_000, end: undefined } },
    ]);
  });

  it("is told with its end, from when it had arrived", () => {
    const late = createLateSends();
    late.sent(sent);
    expect(late.ended("1", endOf(200), NOW + 20)).toBe(true);
    expect(late.known(NOW + 1_000)).toEqual([
      {
        id: "1",
        ageMs: 980,
        late: { wish: WISH, limits: "10/4000", sentMs: 1_000, end: { status: "200", durationMs: 70 } },
      },
    ]);
  });

  it("is not told where it never went, and no more when it has been told", () => {
    const late = createLateSends();
    late.sent(sent);
    late.sent({ ...sent, id: "2" });
    expect(late.ended("1", undefined, NOW)).toBe(true);
    expect(late.known(NOW).map(({ id }) => id)).toEqual(["2"]);
    late.clear();
    expect(late.known(NOW)).toEqual([]);
  });

  it("does not include what was sent otherwise", () => {
    const late = createLateSends();
    expect(late.ended("other", endOf(200), NOW)).toBe(false);
    expect(late.known(NOW)).toEqual([]);
  });
});
