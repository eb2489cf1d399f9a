import { randomInt } from "node:crypto";

import { expect, it } from "vitest";

import { createRandom, type TestRandom } from "../support/random.ts";
import { scrape, type Series, strangersAmong } from "../support/exposition.ts";
import { startGateway } from "../support/gateway.ts";

/** Every kind of request there is to invent, each with values of its own. */
function inventions(random: TestRandom) {
  const character = (): string => random.pick("abcxyzABC019-_.~".split(""));
  // It begins with a letter: `.` would be a part of a path, and the gateway ignores the parameter `_`.
  const word = (): string => `w${Array.from({ length: random.between(1, 12) }, character).join("")}`;
  const number = (): number => random.between(100_000_000, 999_999_999);
  const paths = [
    `/${word()}-nowhere`,
    `/listings/${number()}`,
    `/sold/${number()}`,
    `/listings/${number()}/${word()}`,
    `/listings?areaId=${number()}`,
    `/areas?q=${number()}`,
    `/sold?q=${number()}&${word()}=${word()}`,
    `/sold?q=${number()}&_=${word()}`,
    `/listings?limit=${number()}`,
    `/listings?objectType=${word()}-none`,
    `/cache/primary_${number()}_${random.between(1, 140)}x${random.between(1, 94)}.jpg`,
    `/cache/primary_${number()}_${number()}x${number()}.jpg`,
  ];
  const headers = (): Record<string, string> => ({
    "x-app-id": `${word()}-app`,
    "user-agent": `${word()}-agent/${number()}`,
    "x-request-id": word(),
    referer: `http://${word()}.example/`,
  });
  const odd: Record<string, string>[] = [
    { accept: `${word()}/${word()}` },
    { expect: word() },
    { [`x-${number()}`]: word() },
    { "cache-control": "no-store" },
  ];
  const area = (): string => `/areas?q=${number()}`;
  return [
    ...paths.map((path) => ({ path, method: "GET", headers: headers() })),
    ...["POST", "PUT", "DELETE"].map((method) => ({ path: area(), method, headers: headers() })),
    ...odd.map((more) => ({ path: area(), method: "GET", headers: { ...headers(), ...more } })),
  ];
}

it("the number of apps adds series up to metrics.apps, also when thousands are listed", async () => {
  const ids = Array.from({ length: 3_000 }, (_, nth) => `app-${nth}`);
  const listed = ids.map((id, nth) => `{ id: ${id}, weight: ${nth === 2_999 ? 2 : 1} }`).join(", ");
  const gateway = await startGateway({ settings: `apps: [${listed}]` });
  for (const app of [...ids.slice(0, 150), "app-2999", "unlisted"])
    expect((await gateway.get("/areas?q=Nacka", { headers: { "x-app-id": app } })).status).toBe(200);
  const named = async () =>
    new Set(
      (await scrape(gateway)).flatMap(({ metric, labels: { app } }) =>
        metric === "gateway_requests_total" ? [app] : [],
      ),
    );
  // A request is counted after its answer.
  await expect.poll(named).toContain("app-2999");
  expect(await named()).toContain("other");
  const ofAll = (await scrape(gateway)).flatMap(({ labels: { app } }) => app ?? []);
  expect(new Set(ofAll).size).toBe(101);
});

it("what a caller invents adds no series: not app, id, path, parameter, header or method", async () => {
  const seed = randomInt(2 ** 31);
  const random = createRandom(seed);
  const gateway = await startGateway({ settings: "apps: [{ id: web }]\nmetrics: { apps: 1 }" });
  let asked = 0;

  /** The series after this many more inventions were answered and recorded. */
  async function after(rounds: number): Promise<Series[]> {
    for (let round = 0; round < rounds; round++) {
      for (const { path, ...request } of inventions(random)) {
        // Twice, because answers from the cache have series of their own, and some inventions repeat.
        await gateway.get(path, request);
        await gateway.get(path, request);
        asked += 2;
      }
    }
    await expect.poll(countOfRequests).toBe(asked);
    return scrape(gateway);
  }
  async function countOfRequests(): Promise<number> {
    const counts = (await scrape(gateway)).filter(({ metric }) => metric === "gateway_requests_total");
    return counts.reduce((sum, { value }) => sum + value, 0);
  }

  const first = await after(2);
  const later = await after(10);
  const textOf = ({ text }: Series): string => text;
  expect(later.map(textOf), `seed ${seed}`).toEqual(first.map(textOf));
  expect(strangersAmong(later, ["web"]), `seed ${seed}`).toEqual([]);
});
