/** The traffic of `npm run demo`: five apps with different weights and rates, and a hog that a key switches on. */
import { every, systemClock } from "../process/clock.ts";

const TICK_MS = 100;

/** The apps and their weights, as a settings file. */
export const DEMO_SETTINGS = `apps:
  - { id: web, weight: 3 }
  - { id: ios, weight: 2 }
  - { id: android, weight: 2 }
  - { id: partner }
  - { id: statistics }
`;

/** By app: the number of ticks between two requests, and the target of its request number `n`. */
type Apps = Readonly<Record<string, readonly [everyTicks: number, target: (n: number) => string]>>;

const APPS: Apps = {
  // Visitors leaf through the pages of six searches.
  web: [3, (n) => `/listings?areaId=${n % 6}&limit=20&offset=${(n % 4) * 20}`],
  // Asks the first page of the same searches, spelled differently.
  ios: [7, (n) => `//listings/?limit=20.0&offset=+0&areaId=0${n % 6}`],
  // A visitor raises the highest price from time to time: a new question.
  android: [
    11,
    (n) => `/sold?objectType=Villa,radhus&maxSoldPrice=${2_000_000 + Math.floor(n / 8) * 25_000}`,
  ],
  // Every tenth request has a mistake.
  partner: [
    23,
    (n) => (n % 10 === 9 ? "/listings?areaID=7&limit=900" : `/areas?q=${"Nacka".slice(0, 2 + (n % 4))}`),
  ],
  // Goes through all areas, so most of its questions are new.
  statistics: [61, (n) => `/sold?areaId=${n}&limit=500`],
};

/** Asks for something new with every request. */
const WITH_HOG: Apps = { ...APPS, hog: [1, (n) => `/listings?minListPrice=${n}&limit=1`] };

export type Traffic = ReturnType<typeof startTraffic>;

/** @param baseUrl the callers' port */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function startTraffic(baseUrl: string) {
  let ticks = 0;
  let apps = APPS;

  async function ask(app: string, target: string): Promise<void> {
    const response = await fetch(baseUrl + target, { headers: { "X-App-Id": app } });
    await response.arrayBuffer();
  }

  // A tick does not wait for the answers to earlier requests.
  every(systemClock, TICK_MS, () => {
    ticks += 1;
    for (const [app, [everyTicks, target]] of Object.entries(apps)) {
      // A request gets no response only while the gateway stops, so ignore that.
      if (ticks % everyTicks === 0) ask(app, target(ticks / everyTicks)).catch(() => undefined);
    }
  });
  return { setHog: (isThere: boolean): void => void (apps = isThere ? WITH_HOG : APPS) };
}
