import { describe, expect, it } from "vitest";

import { startGateway, type TestGateway } from "../support/gateway.ts";

/** The links of an answer, by their relation. */
async function linksOf(gateway: TestGateway, path: string): Promise<Record<string, string>> {
  const { headers } = await gateway.get(path);
  const links = String(headers["link"] ?? "").matchAll(/<([^>]*)>; rel="(\w+)"/g);
  return Object.fromEntries([...links].map(([, target = "", relation = ""]) => [relation, target]));
}

describe("a page of a list", () => {
  it.each(["off", "on"])("links to the next and the previous page, with pages.fold: %s", async (fold) => {
    const gateway = await startGateway({ env: { PAGES_FOLD: fold } });
    const seen = new Set<unknown>();
    let path: string | undefined = "/listings?limit=400";
    let [pages, total] = [0, 0];
    while (path !== undefined) {
      const reply = await gateway.get(path);
      const { listings, totalCount } = Object(reply.json());
      for (const { serviceId } of listings) seen.add(serviceId);
      [pages, total] = [pages + 1, totalCount];
      // The answer of a hit has the same links.
      const links = await linksOf(gateway, path);
      expect(await linksOf(gateway, path)).toEqual(links);
      expect("prev" in links).toBe(pages > 1);
      const next: string | undefined = links["next"];
      path = next && new URL(next, `http://gateway${path}`).href.slice("http://gateway".length);
    }
    expect([pages, seen.size]).toEqual([Math.ceil(total / 400), total]);
    expect(pages).toBeGreaterThan(1);
  });
});
