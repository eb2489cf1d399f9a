/** An upstream whose records appear, change and disappear while callers read page after page. */
import { expect } from "vitest";

import { generateData } from "../../src/sandbox/dataset/generate.ts";
import type { PropertyRow, SandboxData } from "../../src/sandbox/dataset/model.ts";
import { listBody } from "../../src/sandbox/envelope.ts";
import { search } from "../../src/sandbox/search.ts";
import { createRandom, type TestRandom } from "./random.ts";
import { CALLER, startGateway } from "./gateway.ts";
import { createSteppingClock } from "./stepping-clock.ts";

/** Everything expires within seconds, and may be served stale for as long. A busy machine is no reason to give up. */
const SETTINGS = `
cache: { ttl: { listings: 4s }, staleWhileRevalidate: { listings: 4s }, negativeTtl: 1s }
upstream: { connectTimeout: 60s, headerTimeout: 60s, bodyTimeout: 60s, totalTimeout: 3m }
`;
const SIZES = [10, 25, 35, 50, 100, 125];
const WALKERS = 8;
const SEARCHES: readonly Readonly<Record<string, string>>[] = [{}, { minRooms: "3" }, { areaId: "2" }];

/** Walks through an upstream that changes, and checks that every page is a slice of one state of it. */
export async function walkWhileChanging({ pages, seed }: { readonly pages: number; readonly seed: number }) {
  const random = createRandom(seed);
  const all = generateData({ seed: 1, listings: 1_600, sold: 1, service: CALLER.service });
  const upstream = createChanging(all, random);
  const clock = createSteppingClock();
  const sandbox = { data: upstream.data, now: clock.now };
  // While one walker waits, the others let time pass.
  const env = { LOG_LEVEL: "warn", LOG_ACCESS: "off", BUDGET_MAX_WAIT: "1h" };
  const gateway = await startGateway({ clock, sandbox, settings: SETTINGS, env });
  const seen = new Set<number>();
  let walked = 0;

  async function walk(): Promise<void> {
    const filters = random.pick(SEARCHES);
    const limit = random.pick(SIZES);
    for (let offset = 0; offset < 1_700 && walked < pages; offset += limit) {
      walked += 1;
      const params = { ...filters, limit: String(limit), offset: String(offset) };
      const { status, text } = await gateway.get(`/listings?${new URLSearchParams(params).toString()}`);
      expect(status).toBe(200);
      const state = upstream.stateOf(params, text);
      if (state === undefined) expect.unreachable(`${JSON.stringify(params)} is of no state of the upstream`);
      seen.add(state);
      if (random.chance(0.3)) upstream.change();
      if (random.chance(0.3)) clock.pass(random.between(100, 3_000));
    }
  }
  async function walker(): Promise<void> {
    while (walked < pages) await walk();
  }
  await Promise.all(Array.from({ length: WALKERS }, walker));
  return {
    /** Pages that were walked through. */
    pages: walked,
    /** States that the upstream was in. */
    states: upstream.states(),
    /** States that pages were of. */
    seen: seen.size,
    calls: gateway.sandbox.counts().total,
  };
}

function createChanging(all: SandboxData, random: TestRandom) {
  const states: (readonly PropertyRow[])[] = [all.listings.slice(0, 1_500)];
  const current = (): readonly PropertyRow[] => states.at(-1) ?? [];
  const dataOf = (listings: readonly PropertyRow[]): SandboxData => ({ ...all, listings });

  return {
    // The sandbox looks for its listings anew for each request.
    data: {
      ...all,
      get listings() {
        return current();
      },
    },
    change() {
      const rows = [...current()];
      const at = random.between(0, rows.length - 1);
      const row = rows[at];
      const gone = all.listings.filter((candidate) => !rows.includes(candidate));
      if (row === undefined) return;
      if (random.chance(0.4) && gone.length > 0) rows.splice(at, 0, random.pick(gone));
      else if (random.chance(0.5)) rows.splice(at, 1);
      else rows[at] = { ...row, record: { ...row.record, listPrice: random.between(1, 9_000_000) } };
      states.push(rows);
    },
    states: () => states.length,
    /** Which state a body is a page of. */
    stateOf(params: Readonly<Record<string, string>>, body: string): number | undefined {
      // Most pages are of a late state.
      for (let state = states.length - 1; state >= 0; state -= 1) {
        const found = search(dataOf(states[state] ?? []), "listings", params);
        if (listBody("listings", found, "offset") === body) return state;
      }
      return undefined;
    },
  };
}
