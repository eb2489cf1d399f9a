/**
 * Traffic as a company's apps cause it: few searches are popular and many are not, each app writes URLs its own way,
 * pages have many sizes, and some callers walk through a whole result. The same seed gives the same requests.
 */
import { createRandom, type TestRandom } from "./random.ts";

/** One request, and what it means apart from how it is written. */
export interface WorkloadRequest {
  readonly resource: "listings" | "sold";
  readonly filters: Readonly<Record<string, string>>;
  readonly limit: number;
  readonly offset: number;
  /** As the app writes it. */
  readonly target: string;
  readonly app: string;
}

type Search = Pick<WorkloadRequest, "resource" | "filters">;

const PAGE_SIZES = [10, 20, 25, 30, 35, 50, 100, 125, 250, 500];
const TYPES = ["villa", "lägenhet", "radhus", "fritidshus", "tomt-mark"];

function search(random: TestRandom, areaIds: readonly number[]): Search {
  const resource = random.chance(0.6) ? "listings" : "sold";
  const filters: Record<string, string> = {};
  if (random.chance(0.85)) filters["areaId"] = String(random.pick(areaIds));
  if (random.chance(0.4)) filters["minRooms"] = String(random.between(1, 5));
  if (random.chance(0.3)) filters["objectType"] = random.pick(TYPES);
  if (random.chance(0.2)) filters["maxRent"] = String(random.between(2, 9) * 1000);
  if (random.chance(0.1)) filters["includeUnset"] = "0";
  return { resource, filters };
}

type Pair = readonly [string, string];

/** Apps, and how each writes URLs. */
function apps(random: TestRandom) {
  return Array.from({ length: 12 }, (_, index) => {
    const isShuffling = index % 3 === 0;
    const isPadding = index % 4 === 1;
    const isShouting = index % 5 === 2;
    const alwaysSaysOffset = index % 2 === 0;
    const slash = index % 6 === 3 ? "/" : "";
    return {
      id: `app-${index}`,
      sizes: random.some(PAGE_SIZES),
      write({ resource, filters }: Search, limit: number, offset: number, random: TestRandom): string {
        const given: Pair[] = Object.entries(filters);
        const pairs: Pair[] = [...given, ["limit", String(limit)]];
        if (offset > 0 || alwaysSaysOffset) pairs.push(["offset", String(offset)]);
        const ordered = isShuffling ? random.shuffled(pairs) : pairs;
        const text = ordered
          .map(([name, value]) => {
            const spelled = isPadding && /^\d+$/.test(value) ? `0${value}` : value;
            const shouted = isShouting && name === "objectType" ? spelled.toUpperCase() : spelled;
            return `${name}=${encodeURIComponent(shouted)}`;
          })
          .join("&");
        return `/${resource}${slash}?${text}`;
      },
    };
  });
}

/** Which of so many, the first ones far more often than the last: the n-th in proportion to 1/n. */
function zipf(count: number): (random: TestRandom) => number {
  const sums: number[] = [];
  let sum = 0;
  for (let nth = 1; nth <= count; nth += 1) sums.push((sum += 1 / nth));
  return (random) => {
    const drawn = (random.between(0, 999_999_999) / 1_000_000_000) * sum;
    return sums.findIndex((upTo) => drawn < upTo);
  };
}

/** What part of the visits walks on, and how far at the most. */
const WALKS = 0.25;
const LONGEST_WALK = 30;

type WorkloadOptions = Record<"seed" | "requests" | "searches", number> &
  Record<"areaIds", readonly number[]>;

/** @param options `searches`: how many different searches there are */
export function createWorkload(options: WorkloadOptions): WorkloadRequest[] {
  const { seed, requests, searches, areaIds } = options;
  const random = createRandom(seed);
  const known = Array.from({ length: searches }, () => search(random, areaIds));
  const callers = apps(random);
  const popular = zipf(searches);
  const all: WorkloadRequest[] = [];
  while (all.length < requests) {
    const chosen = known[popular(random)] ?? { resource: "listings", filters: {} };
    const app = random.pick(callers);
    const limit = random.pick(app.sizes);
    const pages = random.chance(WALKS) ? random.between(2, LONGEST_WALK) : 1;
    for (let page = 0; page < pages && all.length < requests; page += 1) {
      const offset = page * limit;
      all.push({ ...chosen, limit, offset, app: app.id, target: app.write(chosen, limit, offset, random) });
    }
  }
  return all;
}
