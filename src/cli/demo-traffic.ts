/** The traffic of `npm run demo`: five apps with different weights and rates, and a hog that a key switches on. */

interface DemoApp {
  readonly id: string;
  /** The number of ticks between two requests. */
  readonly everyTicks: number;
  /** @returns the target of the app's request number `n` */
  readonly target: (n: number) => string;
}

export const TICK_MS = 100;

/** The apps and their weights, as a settings file. */
export const DEMO_SETTINGS = `apps:
  - { id: web, weight: 3 }
  - { id: ios, weight: 2 }
  - { id: android, weight: 2 }
  - { id: partner }
  - { id: statistics }
`;

const APPS: readonly DemoApp[] = [
  // Visitors leaf through the pages of six searches.
  { id: "web", everyTicks: 3, target: (n) => `/listings?areaId=${n % 6}&limit=20&offset=${(n % 4) * 20}` },
  // Asks the first page of the same searches, spelled differently.
  { id: "ios", everyTicks: 7, target: (n) => `//listings/?limit=20.0&offset=+0&areaId=0${n % 6}` },
  // A visitor raises the highest price from time to time: a new question.
  {
    id: "android",
    everyTicks: 11,
    target: (n) =>
      `/sold?objectType=Villa,radhus&maxSoldPrice=${2_000_000 + Math.floor(n / 8) * 25_000}&limit=50`,
  },
  // Every tenth request has a mistake.
  {
    id: "partner",
    everyTicks: 23,
    target: (n) =>
      n % 10 === 9 ? "/listings?areaID=7&limit=900" : `/areas?q=${"Nacka".slice(0, 2 + (n % 4))}`,
  },
  // Goes through all areas, so most of its questions are new.
  { id: "statistics", everyTicks: 61, target: (n) => `/sold?areaId=${n}&limit=500` },
];

/** Asks for something new with every request. */
const HOG: DemoApp = { id: "hog", everyTicks: 1, target: (n) => `/listings?minListPrice=${n}&limit=1` };

export interface DemoTraffic {
  /** Sends the requests of one tick, without waiting for the answers to earlier ones. */
  readonly tick: () => void;
  readonly setHog: (isThere: boolean) => void;
}

/** @param baseUrl the callers' port */
export function createDemoTraffic(baseUrl: string): DemoTraffic {
  let ticks = 0;
  let apps = APPS;

  async function ask({ id, everyTicks, target }: DemoApp): Promise<void> {
    const response = await fetch(baseUrl + target(ticks / everyTicks), { headers: { "X-App-Id": id } });
    await response.arrayBuffer();
  }

  return {
    tick() {
      ticks += 1;
      // A request gets no response only while the gateway stops, so ignore that.
      for (const app of apps) if (ticks % app.everyTicks === 0) ask(app).catch(() => undefined);
    },
    setHog(isThere) {
      apps = isThere ? [...APPS, HOG] : APPS;
    },
  };
}
