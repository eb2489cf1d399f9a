import { describe, expect, it } from "vitest";

import { canonicalText, upstreamTarget } from "../../../src/query/text.ts";
import { parsedTarget, understood, type Understanding } from "../../support/understood.ts";

const HASH = "0123456789abcdef0123456789abcdef01234567";

/** What could be kept, logged or sent of a target. */
function leavings(target: string, options?: Understanding): string {
  const parsed = parsedTarget(target, options);
  if (parsed?.ok !== true) return JSON.stringify(parsed);
  const { query } = parsed;
  const text = query.kind === "streamed" ? "" : canonicalText(query);
  return `${text} ${upstreamTarget(query, "/{resource}/{serviceId}")}`;
}

describe("an old client's signature", () => {
  it.each([
    `hash=${HASH}`,
    `Hash=${HASH}`,
    `HASH=${HASH}`,
    `%68ash=${HASH}`,
    `%48%61%73%68=${HASH}`,
    `+hash=${HASH}`,
    `hash%20=${HASH}`,
    `%09hash%0A=${HASH}`,
    `hash[]=${HASH}`,
    `hash%5B%5D=${HASH}`,
    `hash[a][b]=${HASH}`,
    `hash[%0A]=${HASH}`,
    `hash%20[]=${HASH}`,
    `hash%00=${HASH}`,
    `hash=${HASH}&hash=${HASH.toUpperCase()}`,
    "hash=",
    "hash",
    "hash=%zz",
    "hash[%zz]=%E4",
    "unique=%FF%FE%00",
    "unique=as+long+as+you+like&unique=%26limit%3D5",
    "time=1700000000000",
    "TIME=now&callerId=%E4&callerid=x",
    `callerId=old&time=1&unique=abcdefghijklmnop&hash=${HASH}`,
  ])("as %s leaves nothing behind", (signature) => {
    for (const path of ["/listings", "/sold/7", "/areas", "/cache/primary_7_10x10.jpg"]) {
      for (const unknown of ["forward", "drop", "reject"] as const) {
        expect(leavings(`${path}?${signature}`, { unknown })).toBe(leavings(path, { unknown }));
      }
    }
  });

  it("leaves nothing behind on a path that is passed through", () => {
    const passThrough = ["/listings/{serviceId}/similar"];
    const target = `/listings/7/similar?a=1&Hash[]=${HASH}&unique=%FF&callerId=x&time=1`;
    expect(leavings(target, { passThrough }).trim()).toBe("/listings/7/similar?a=1");
  });

  it.each(["hashtag", "rehash", "timeout", "uniqueness", "caller_id", "ha%20sh"])(
    "is not what a parameter named %s is",
    (name) => {
      expect(understood(`/areas?${name}=1`)).toBe(`areas?${name}=1`);
    },
  );

  it("written into another parameter's value is just that value", () => {
    expect(understood("/areas?q=a%26hash%3Db")).toBe("areas?q=a%26hash%3Db");
  });
});

describe("an ignored name", () => {
  it.each(["_=1", "key=abc", "key", "key=&_=", "_=%zz", "+key+=1", "%5F=1", "%6bey=1"])(
    "says nothing, as in %s",
    (noise) => {
      expect(understood(`/areas?${noise}`, { unknown: "reject" })).toBe("areas");
    },
  );

  it.each(["Key=1", "__=1", "key[]=1"])("is ignored exactly as it is in the settings, unlike %s", (other) => {
    expect(understood(`/areas?${other}`)).not.toBe("areas");
  });

  it("may be one that the interface documents", () => {
    expect(understood("/areas?q=a&limit=5000", { ignored: ["limit"] })).toBe("areas?q=a");
  });
});

describe("the company's own key", () => {
  const options = { isSecret: (text: string): boolean => text === "s3c+ret/=" };

  it.each([
    "apikey=s3c%2Bret%2F%3D",
    "apikey=s3c+ret/=",
    "apikey=%20s3c%2Bret/=%0A",
    "q=s3c%2Bret/%3D",
    "areaId=s3c%2Bret/%3D",
    "s3c%2Bret%2F%3D",
    "s3c%2Bret%2F%3D=1",
  ])("sent by mistake as %s leaves nothing behind", (mistake) => {
    expect(leavings(`/listings?${mistake}`, options)).toBe(leavings("/listings"));
  });

  it("leaves nothing behind where it has blanks in it", () => {
    const isSecret = (text: string): boolean => text === "open sesame";
    expect(understood("/areas?apikey=+open%20sesame&x=open", { isSecret })).toBe("areas?x=open");
  });

  it("leaves nothing behind where it cannot even be decoded", () => {
    expect(understood("/listings?apikey=100%zz", { isSecret: (text) => text === "100%zz" })).toBe(
      "listings?offset=0",
    );
  });
});

describe("a name that is unknown and to be dropped", () => {
  const options = { unknown: "drop" } as const;

  it.each(["ref=100%", "%E4=1", "ref=%E4", "a=1&b[]=2", "__proto__=1", "areaIds=1"])(
    "is dropped, as in %s",
    (noise) => {
      expect(understood(`/sold?${noise}`, options)).toBe("sold?offset=0");
      expect(understood(`/sold/7?${noise}`, options)).toBe("sold/7");
    },
  );

  it("is another than a documented one with a broken value, which is refused", () => {
    expect(understood("/sold?q=100%", options)).toBe("refused: q");
  });
});
