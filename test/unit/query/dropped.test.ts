import { describe, expect, it } from "vitest";

import { upstreamTarget } from "../../../src/query/canonical.ts";
import { parsedTarget, understood, type Understanding } from "../../support/understood.ts";

/** As the settings are by default. */
const DEFAULTS: Understanding = {
  unknown: "reject",
  ignore: ["_", "format", "utm_*", "fbclid", "gclid"],
  passThrough: ["/listings/{serviceId}/similar"],
};

describe("a parameter that is dropped, whatever its value", () => {
  const DROPPED =
    "callerId=x&time=1&unique=%FF%FE%00&hash=wrong TIME=now callerid=x hash hash=%zz %09hash%0A=1 hash[a][b]=1 " +
    "hash[%0A]=1 hash%00=1 hash[%zz]=%E4 key=k Key=k apiKey=k api_key=k X-Api-Key=k token=k access_token=k Secret=k " +
    "private.key[]=k _=1 _=%zz %5F=1 format=json utm_source=a utm_=%E4 gclid=1";
  it.each(DROPPED.split(" "))("%s", (dropped) => {
    for (const unknown of ["reject", "forward"] as const) {
      const options = { ...DEFAULTS, unknown };
      for (const path of ["/areas", "/sold/7", "/cache/primary_7_10x10.jpg", "/listings/7/similar"]) {
        const parsed = parsedTarget(`${path}?${dropped}`, options);
        expect(parsed?.ok && upstreamTarget(parsed.query, "/{resource}/{serviceId}")).toBe(path);
      }
    }
  });

  it("is dropped even if it is in query.allow, unless it only has the name of noise", () => {
    expect(understood("/areas?key=k&_=1", { ...DEFAULTS, allow: ["key"] })).toBe("areas");
  });

  it.each([
    "hashtag",
    "timeout",
    "caller_id",
    "ha%20sh",
    "monkey",
    "keyword",
    "tokens",
    "__",
    "_[]",
    "Format",
  ])("is not one named %s", (name) => {
    expect(understood(`/areas?${name}=1`, DEFAULTS)).toMatch(/^refused/);
    expect(understood(`/areas?${name}=1`, { ...DEFAULTS, unknown: "forward" })).toBe(
      `areas?${name}=1`.replace("[]", "%5B%5D"),
    );
  });

  it("is never a documented one", () => {
    expect(understood("/areas?q=a&limit=5", { ignore: ["limit"] })).toBe("areas?q=a&limit=5");
    expect(understood("/areas?q=a&zoom=5&limit=5", { ignore: ["*"] })).toBe("areas?q=a&limit=5");
  });
});

describe("an undocumented parameter", () => {
  it.each([
    ["/listings?areaID=76", "areaID", "did you mean areaId?"],
    ["/listings?areaId[]=76", "areaId[]", "did you mean areaId?"],
    ["/listings?minRoom=3", "minRoom", "did you mean minRooms?"],
    ["/listings?limt=5", "limt", "did you mean limit?"],
    ["/listings?page=2", "page", undefined],
    [
      "/sold?minListPrice=5",
      "minListPrice",
      "minListPrice is a parameter of /listings; did you mean minSoldPrice?",
    ],
    ["/areas?q=a&offset=5", "offset", "offset is a parameter of /listings and /sold"],
    ["/listings/7?limit=5", "limit", "limit is a parameter of /listings and /sold and /areas"],
    ["/cache/primary_7_10x10.jpg?v=1", "v", undefined],
  ])("of %s is refused by its name, with what may be meant", (target, parameter, hint) => {
    const value = target.split("=").at(-1);
    const fault = { parameter, value, expected: "a documented parameter", ...(hint && { hint }) };
    expect(parsedTarget(target, DEFAULTS)).toEqual({ ok: false, faults: [fault] });
  });

  it("without a value is dropped", () => {
    expect(understood("/areas?q=a&areaIds&1767225600&x=&y=undefined&z=+null+", DEFAULTS)).toBe("areas?q=a");
  });

  it("that cannot be decoded is refused", () => {
    expect(understood("/areas?ref=100%&%E4=1", DEFAULTS)).toBe("refused: ref, %E4");
  });

  it("in query.allow is sent, sorted by name, with all its values", () => {
    const options = { ...DEFAULTS, allow: ["zoom", "beta"] };
    expect(understood("/areas?zoom=2&q=a&limit=5&beta=&zoom=1", options)).toBe(
      "areas?q=a&beta=&zoom=2&zoom=1&limit=5",
    );
    expect(understood("/areas?zooms=2", options)).toBe("refused: zooms");
  });

  it("is sent with query.unknown: forward, as it is", () => {
    expect(
      understood("/listings?z=1&limit=5&a=K3y-9x81kQ&areaId=3", { ...DEFAULTS, unknown: "forward" }),
    ).toBe("listings?areaId=3&a=K3y-9x81kQ&z=1&limit=5&offset=0");
  });
});

describe("text that looks like a key", () => {
  it("in a documented parameter is the caller's own text, understood and shown like any other", () => {
    for (const text of ["Hammarby1:2A3", "Zx81kQ92mmP4x7", "K3y-that-nobody-may-ever-see"]) {
      expect(understood(`/areas?q=${text}`, DEFAULTS)).toBe(`areas?q=${encodeURIComponent(text)}`);
      const parsed = parsedTarget(`/areas?limit=${text}`, DEFAULTS);
      expect(parsed).toMatchObject({ faults: [{ parameter: "limit", value: text }] });
    }
  });
});
