import { cacheKey } from "../src/query/key.ts";
import { parseQuery } from "../src/query/parse.ts";
import { createRouter } from "../src/query/route.ts";
import { canonicalForm } from "../src/query/canonical.ts";
import { splitTarget } from "../src/query/wire.ts";
import { measure } from "./measure.ts";
import { micros, printTable, ratio } from "./table.ts";

const TARGETS = {
  "a record": "/listings/4711",
  "a page of a search": "/listings?areaId=76&limit=50&offset=100",
  "a search with twelve parameters":
    "/listings?q=S%C3%B6dermalm&center=59.30,18.05&dim=1000,2000&areaId=76,1,2&minListPrice=1000000" +
    "&maxListPrice=5000000&minRooms=2.0&objectType=Villa%2Cradhus&minPublished=2026-01-31&isNewConstruction=false" +
    "&limit=50&offset=100",
};

/** Measures the way from a request target to its cache key, compared with parsing a URL, which every cache has to do. */
export async function benchUnderstanding(forMs: number): Promise<void> {
  const route = createRouter({ recordPath: "/{resource}/{serviceId}", passThrough: [] });
  const options = { unknown: "forward", ignored: ["_", "key"], conceal: (text: string) => text } as const;
  const key = (target: string): string => {
    const { path, search } = splitTarget(target);
    const to = route(path);
    if (to.kind === "unknown") throw new Error(target);
    const parsed = parseQuery(to, search, options);
    if (!parsed.ok || parsed.query.kind === "streamed") throw new Error(target);
    return cacheKey("json", canonicalForm(parsed.query));
  };
  const cost = async (operation: () => unknown): Promise<number> => {
    await measure(forMs / 4, 1, operation);
    return (await measure(forMs, 1, operation)).cpuMs;
  };
  const base = await cost(() => new URL(TARGETS["a record"], "http://x").href);
  const rows = [["(new URL, for scale)", micros(base), "1.00x"]];
  for (const [name, target] of Object.entries(TARGETS)) {
    const cpuMs = await cost(() => key(target));
    rows.push([name, micros(cpuMs), ratio(cpuMs, base)]);
  }
  printTable("Understanding a request", ["request", "CPU", "of a URL parse"], rows);
}
