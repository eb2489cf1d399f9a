import { expect, it, vi } from "vitest";

import { createRefresh } from "../../../src/cache/refresh.ts";
import { Problem } from "../../../src/errors.ts";
import { entryWith } from "../../support/entries.ts";
import { SILENT } from "../../support/silent-observer.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith, SEARCH } from "../../support/question.ts";

it("a refresh without a permit pauses those of its app and resource for a second, and no others", async () => {
  const clock = createFakeClock();
  const load = vi.fn(() => Promise.reject(new Problem("temporary-reduced-capacity")));
  const refresh = createRefresh({
    load,
    failures: { recent: () => undefined },
    clock,
    observer: { ...SILENT, error: expect.unreachable },
  });
  const loadsAfter = async (app: string, text?: string, cause: "refresh" | "warm" = "refresh") => {
    const resource = text?.startsWith("sold") ? ("sold" as const) : ("listings" as const);
    const asked = questionWith(requestWith(clock.now(), { app }), text);
    const question = { ...asked, query: { ...SEARCH, resource } };
    expect(await refresh(question, entryWith("{}"), cause)).toBe("refused");
    return load.mock.calls.length;
  };
  expect([await loadsAfter("web"), await loadsAfter("web", "listings?areaId=1&offset=0")]).toEqual([1, 1]);
  expect([await loadsAfter("other"), await loadsAfter("web", undefined, "warm")]).toEqual([2, 3]);
  expect(await loadsAfter("web", "sold?offset=0")).toBe(4);
  await clock.advance(999);
  expect(await loadsAfter("web")).toBe(4);
  await clock.advance(1);
  expect(await loadsAfter("web")).toBe(5);
  // Callers can invent ids, so only the latest 1,000 apps are remembered.
  for (let app = 0; app < 1_000; app++) await loadsAfter(`app-${app}`);
  expect(await loadsAfter("web")).toBe(1_006);
});
