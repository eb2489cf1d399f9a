import { describe, expect, it } from "vitest";

import { canonicalForm, upstreamTarget } from "../../../src/query/canonical.ts";
import { parsedTarget, understood, type Understanding } from "../../support/understood.ts";

const HASH = "0123456789abcdef0123456789abcdef01234567";

/** What could be kept, logged or sent of a target. */
function leavings(target: string, options?: Understanding): string {
  const parsed = parsedTarget(target, options);
  if (parsed?.ok !== true) return JSON.stringify(parsed);
  const { query } = parsed;
  const text = query.kind === "streamed" ? "" : canonicalForm(query);
  return `${text} ${upstreamTarget(query, "/{resource}/{serviceId}")}`;
}

describe("an old client's signature", () => {
  it.each([
    `hash=${HASH}`,
    `%09hash%0A=${HASH}`,
    `hash[a][b]=${HASH}`,
    `hash[%0A]=${HASH}`,
    `hash%00=${HASH}`,
    "hash",
    "hash=%zz",
    "hash[%zz]=%E4",
    "unique=%FF%FE%00",
    "TIME=now&callerId=%E4&callerid=x",
  ])("as %s is dropped completely", (signature) => {
    for (const path of ["/listings", "/sold/7", "/areas", "/cache/primary_7_10x10.jpg"]) {
      for (const unknown of ["forward", "drop", "reject"] as const) {
        expect(leavings(`${path}?${signature}`, { unknown })).toBe(leavings(path, { unknown }));
      }
    }
  });

  it("is dropped completely on a path passed through", () => {
    const passThrough = ["/listings/{serviceId}/similar"];
    const target = `/listings/7/similar?a=1&Hash[]=${HASH}&unique=%FF&callerId=x&time=1`;
    expect(leavings(target, { passThrough }).trim()).toBe("/listings/7/similar?a=1");
  });

  it.each(["hashtag", "rehash", "timeout", "uniqueness", "caller_id", "ha%20sh"])(
    "is not a parameter named %s",
    (name) => {
      expect(understood(`/areas?${name}=1`)).toBe(`areas?${name}=1`);
    },
  );

  it("in another parameter's value is part of that value", () => {
    expect(understood("/areas?q=a%26hash%3Db")).toBe("areas?q=a%26hash%3Db");
  });
});

describe("an ignored name", () => {
  it.each(["_=1", "key=abc", "key", "key=&_=", "_=%zz", "+key+=1", "%5F=1", "%6bey=1"])(
    "is dropped, as in %s",
    (noise) => {
      expect(understood(`/areas?${noise}`, { unknown: "reject" })).toBe("areas");
    },
  );

  it.each(["__=1", "_[]=1"])("must match exactly, unlike %s", (other) => {
    expect(understood(`/areas?${other}`)).not.toBe("areas");
  });

  it("may be a documented parameter", () => {
    expect(understood("/areas?q=a&limit=5000", { ignored: ["limit"] })).toBe("areas?q=a");
  });
});

/** The parser knows no secret: all of these are judged by their looks. */
describe("a value that looks like a credential", () => {
  it.each([
    "K3y-that-nobody-may-ever-see",
    "s3c+ret/=",
    "t0ken-that.nobody_may~ever/see+==",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "eyJhbGciOiJIUzI1NiJ9.e30.ZRrHA1JJJW8opsbCGfG",
    "Bearer K3y-that-nobody",
    "prefixK3y-that-nobody,suffix",
  ])("as %s is refused in every documented parameter", (text) => {
    const value = encodeURIComponent(text);
    // An undocumented one is passed on: without it, two questions would be one.
    expect(understood(`/listings?x=${value}`)).toMatch(/^listings\?(offset=0&)?x=/);
    for (const name of [
      "q",
      "areaId",
      "limit",
      "objectType",
      "center",
      "minPublished",
      "isNewConstruction",
    ]) {
      expect(understood(`/listings?${name}=${value}`)).toBe(`refused: ${name}`);
    }
    expect(understood(`/listings/${encodeURIComponent(text.replaceAll("/", "-"))}`)).toBe(
      "refused: serviceId",
    );
  });

  it.each([
    "Upplands Väsby",
    "Enskede-Årsta-Vantör",
    "Storgatan 12B, lgh 1101",
    "Storgatan12B",
    "lgh1101",
    "Sicklaön37:12",
    "E4",
    "100 m2",
    "59.3,18.1,59.4,18.2",
    "1767225600000",
    "2026-01-31T08:30:00Z",
    "20260131T083000+0100",
    "kv. Björken 3",
  ])("is not %s", (text) => {
    const value = encodeURIComponent(text);
    expect(understood(`/areas?q=${value}`)).not.toMatch(/^refused/);
    expect(understood(`/areas?x=${value}`)).toMatch(/^areas\?x=/);
  });

  it("is not shown in the problem, as name or value, decoded or not", () => {
    const key = "K3y-that-nobody-may-ever-see";
    for (const [target, fault] of [
      [`/listings?limit=${key}`, { parameter: "limit", value: "[not shown]" }],
      [`/listings?limit=5&limit=${key}`, { parameter: "limit", value: "[not shown]" }],
      [`/listings?x=${key}%zz`, { parameter: "x", value: "[not shown]" }],
      [`/listings?${key}%zz=1`, { parameter: "[not shown]", value: "1" }],
      [`/listings?${key}=${key}`, { parameter: "[not shown]", value: "[not shown]" }],
      [`/listings/${key}`, { parameter: "serviceId", value: "[not shown]" }],
    ] as const) {
      expect([target, parsedTarget(target, { unknown: "reject" })]).toMatchObject([
        target,
        { faults: [fault] },
      ]);
    }
  });
});

describe("a parameter with the name of a credential", () => {
  it.each([
    "key",
    "Key",
    "apiKey",
    "api_key",
    "X-Api-Key",
    "token",
    "access_token",
    "private.key[]",
    "Secret",
  ])("is dropped with any value, as in %s", (name) => {
    for (const unknown of ["forward", "drop", "reject"] as const) {
      expect(understood(`/areas?${encodeURIComponent(name)}=word`, { unknown, ignored: [] })).toBe("areas");
    }
  });

  it.each(["monkey", "keyword", "tokens", "authors", "secretary"])("is not %s", (name) => {
    expect(understood(`/areas?${name}=word`)).toBe(`areas?${name}=word`);
  });
});

describe("an unknown name with query.unknown: drop", () => {
  const options = { unknown: "drop" } as const;

  it.each(["ref=100%", "%E4=1", "ref=%E4", "a=1&b[]=2", "__proto__=1", "areaIds=1"])(
    "is dropped, as in %s",
    (noise) => {
      expect(understood(`/sold?${noise}`, options)).toBe("sold?offset=0");
      expect(understood(`/sold/7?${noise}`, options)).toBe("sold/7");
    },
  );

  it("does not include a documented name with a malformed value", () => {
    expect(understood("/sold?q=100%", options)).toBe("refused: q");
  });
});
