/** The app of a request, and what an invented id can cost. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { Apps } from "../../../src/ratelimit/apps.ts";

const MINUTE = 60_000;

function appsOf(unlisted: { readonly max?: number } = {}) {
  const apps = [{ id: "web", weight: 4, perDay: 100 }];
  const unlistedApps = { weight: 1, max: 3, share: 0.5, ...unlisted };
  return new Apps({ apps, unlistedApps, metrics: { apps: 3 } });
}

describe("a request counts as", () => {
  it.each([
    ["a listed app", "web", undefined, "web"],
    ["the id it sends", "crawler-7", "curl/8.1", "crawler-7"],
    ["the first product of its User-Agent", undefined, "curl/8.1 (linux)", "curl"],
    ["the first product, where the id is empty", " ", "curl/8.1", "curl"],
    ["`browser`, where it is one", undefined, "Mozilla/5.0 (X11) Firefox/140.0", "browser"],
    ["`other`, where it has no name", undefined, undefined, "other"],
    ["`other`, where its User-Agent has no product", undefined, "(none)", "other"],
    ["a safe id, where it sends an unsafe one", 'a b"\n<ü>', undefined, "a-b-----"],
    ["64 characters of a long id", "x".repeat(200), undefined, "x".repeat(64)],
    ["its User-Agent, where it sends several ids", ["a", "b"], "curl/8.1", "curl"],
  ] as const)("%s", (_what, appId, userAgent, app) => {
    expect(appsOf().identify(appId, userAgent, 0)).toBe(app);
  });

  it("an id that is safe in a log line, a header and a label", () => {
    // Node reads headers as Latin-1.
    const header = fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes).toString("latin1"));
    fc.assert(
      fc.property(header, header, (appId, userAgent) => {
        expect(appsOf().identify(appId, userAgent, 0)).toMatch(/^[\w.-]{1,64}$/);
      }),
    );
  });
});

it("unlisted ids are bounded: a new id replaces the one seen least recently, unless that is in use", () => {
  const apps = appsOf();
  for (const [index, id] of ["a", "b", "c"].entries()) apps.identify(id, undefined, index * MINUTE);
  expect(apps.identify("d", undefined, 4 * MINUTE)).toBe("other");
  apps.identify("a", undefined, 4 * MINUTE);
  expect(apps.identify("d", undefined, 6.5 * MINUTE)).toBe("d");
  expect(["a", "b", "c", "d"].map(apps.isKnown)).toEqual([true, false, true, true]);
  expect(apps.identify("web", undefined, 6.5 * MINUTE)).toBe("web");
});
