import { describe, expect, it } from "vitest";

import { createRouter } from "../../../src/query/route.ts";
import { upstreamTarget } from "../../../src/query/canonical.ts";
import { splitTarget } from "../../../src/query/wire.ts";
import { parsedTarget, understood, type Understanding } from "../../support/understood.ts";

/** What the upstream is asked for. */
function asked(target: string, recordPath = "/{resource}/{serviceId}"): string {
  const parsed = parsedTarget(target, { recordPath });
  if (parsed?.ok !== true) throw new Error(`${target} is not understood`);
  return upstreamTarget(parsed.query, recordPath);
}

describe("a request target", () => {
  it.each([
    ["/areas?q=a", "/areas", "q=a"],
    ["/areas", "/areas", ""],
    ["/areas?", "/areas", ""],
    ["/areas&q=a", "/areas", "q=a"],
    ["/areas&q=a?b", "/areas", "q=a?b"],
    ["/areas?q=a?b=c", "/areas", "q=a?b=c"],
    ["/areas?url=http://x/y?z", "/areas", "url=http://x/y?z"],
    ["http://old.example/areas?q=a", "/areas", "q=a"],
    ["HTTPS://u:p@old.example:8443/areas?q=a", "/areas", "q=a"],
    ["http://old.example?q=a", "", "q=a"],
    ["http://old.example", "", ""],
    ["//old.example/areas", "//old.example/areas", ""],
    ["", "", ""],
  ])("%j is the path %j and the query %j", (target, path, search) => {
    expect(splitTarget(target)).toEqual({ path, search });
  });
});

describe("a path", () => {
  it.each([
    "/areas/",
    "//areas",
    "///areas///",
    "/%61reas",
    "/%61%72%65%61%73/",
    "http://old.example/areas",
    "http://old.example//areas/?",
  ])("%s is /areas", (target) => {
    expect(understood(target)).toBe("areas");
  });

  it.each([
    "/./areas",
    "/areas/.",
    "/areas/..",
    "/%2e/areas",
    "/sold/%2E%2E/areas",
    "/sold/..%2fareas",
    "/sold%5c7",
    "/areas#top",
    "/areas;v=1",
    "/areas%20",
    "/areas%00",
    "/areas%3Fq=a",
    "/areas+",
    "/\ud800",
    "/sold/\udfff",
    "/%ED%A0%80",
    "/%C0%AEreas",
    "http://old.example",
    "http:/areas",
    "*",
    "",
  ])("%j is unknown", (target) => {
    expect(understood(target, { passThrough: ["/areas/*"] })).toBe("nothing there");
  });

  it.each([
    ["/listing", "/listings"],
    ["/Listings", "/listings"],
    ["/area", "/areas"],
    ["/sould", "/sold"],
    ["/metrics", undefined],
    ["/__proto__", undefined],
    [`/${"l".repeat(5000)}`, undefined],
  ])("%.20s is unknown and similar to %s", (path, near) => {
    const options = { recordPath: "/{resource}/{serviceId}", passThrough: [] };
    expect(createRouter(options)(path)).toEqual(
      near === undefined ? { kind: "unknown" } : { kind: "unknown", near },
    );
  });
});

describe("a record's path", () => {
  it.each([
    "/sold/7",
    "/sold/07",
    "/sold/7/",
    "//sold//7",
    "/sold/%37",
    "/sold/7.0",
    "/sold/%207%20",
    "/sold/7&",
  ])("%s is the record sold/7", (target) => {
    expect(understood(target)).toBe("sold/7");
  });

  it.each(["undefined", "null", "NaN", "%20", "x", "-7", "7.5", "7,8", "1e3", "0x7", "7%00", "7%26limit=5"])(
    "with the id %s is refused",
    (id) => {
      expect(understood(`/sold/${id}`)).toBe("refused: serviceId");
    },
  );

  it("keeps an id that is too large for a floating-point number", () => {
    expect(understood("/sold/9007199254740993")).toBe("sold/9007199254740993");
  });

  it("at the upstream follows upstream.recordPath", () => {
    expect(asked("/sold/7")).toBe("/sold/7");
    expect(asked("/v1/7/of/sold?beta=1", "/v1/{serviceId}/of/{resource}")).toBe("/v1/7/of/sold?beta=1");
  });

  it("in another form, or of a resource without records, is unknown", () => {
    const recordPath = "/v1/{serviceId}/of/{resource}";
    for (const target of ["/sold/7", "/v1/7/of/areas", "/v1/sold/of/7", "/v1/7/of/sold/x"]) {
      expect([target, understood(target, { recordPath })]).toEqual([target, "nothing there"]);
    }
  });
});

describe("a thumbnail's path", () => {
  it("keeps undocumented parameters, such as a cache buster", () => {
    expect(asked("/cache/primary_07_0140x94.jpg?v=2")).toBe("/cache/primary_7_140x94.jpg?v=2");
  });

  it("is refused with all its mistakes", () => {
    expect(understood("/cache/primary_x_141x0.jpg")).toBe("refused: serviceId, width, height");
    expect(understood("/cache/primary_undefined_14.5xNaN.jpg")).toBe("refused: serviceId, width, height");
  });

  it.each([
    "/cache/primary_7.jpg",
    "/cache/primary_7_140x94.jpeg",
    "/cache/primary_7_140X94.jpg",
    "/cache/primary_7_140x94x1.jpg",
    "/cache/x/primary_7_140x94.jpg",
    "/x/cache/primary_7_140x94.jpg",
  ])("%s is unknown", (target) => {
    expect(understood(target)).toBe("nothing there");
  });
});

describe("a path that is passed through", () => {
  const options: Understanding = {
    passThrough: ["/listings/statistics", "/sold/{serviceId}/history/{year}", "/areas/*"],
    unknown: "reject",
  };

  it.each([
    ["/listings/statistics", "/listings/statistics"],
    ["//listings/%73tatistics/?x=1", "/listings/statistics"],
    ["/sold/7/history/2025", "/sold/7/history/2025"],
    ["/areas/x", "/areas/x"],
    ["/areas/x/y/z", "/areas/x/y/z"],
    ["/areas/a%26b%3F%23", "/areas/a%26b%3F%23"],
    ["/areas/%7Bx%7D*", "/areas/%7Bx%7D%2A"],
  ])("%s goes to %s", (target, path) => {
    expect(understood(target, options)).toBe(`streamed: ${path}`);
  });

  it.each(["/listings/statistics/x", "/sold/7/history", "/sold/7/history/2025/1", "/areas/x/.."])(
    "is not %s",
    (target) => {
      expect(understood(target, options)).toBe("nothing there");
    },
  );

  it("is neither a search nor a record, even if the pattern matches one", () => {
    const all = { passThrough: ["/listings/*", "/areas/*"] };
    expect(understood("/areas", all)).toBe("areas");
    expect(understood("/listings/007", all)).toBe("listings/7");
    expect(understood("/listings/%207", all)).toBe("listings/7");
    expect(understood("/listings/7/similar", all)).toBe("streamed: /listings/7/similar");
    expect(understood("/listings/statistics", all)).toBe("streamed: /listings/statistics");
  });

  it("keeps its parameters sorted, with any query.unknown", () => {
    const parsed = parsedTarget("/areas/x?z=1&limit=9999&a=b+c&_=1&z=%26", options);
    expect(parsed?.ok && upstreamTarget(parsed.query, "")).toBe("/areas/x?a=b%20c&limit=9999&z=1&z=%26");
  });

  it("is refused if a parameter cannot be decoded", () => {
    for (const unknown of ["forward", "reject"] as const) {
      expect(understood("/areas/x?a=%E4", { ...options, unknown })).toBe("refused: a");
    }
  });
});
