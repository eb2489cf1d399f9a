import { LISTING_ID, startGateway, type TestGateway } from "./gateway.ts";
import { redisForTest } from "./redis.ts";

const SETTINGS = `
apps:
  - { id: web, weight: 3 }
  - { id: crm, priority: background }
  - { id: poor, perDay: 2 }
`;

export const BUSY_APPS = ["web", "crm", "poor", "unheard-of"];

/** A gateway with a real Redis, and traffic that produces every metric. */
export async function startBusy(): Promise<{ gateway: TestGateway; traffic: () => Promise<void> }> {
  const gateway = await startGateway({
    redis: await redisForTest(),
    settings: SETTINGS,
    env: {
      CACHE_TTL: "listings=200ms,records=200ms",
      // So that an expired search is served instead of a refusal, and not refreshed.
      CACHE_STALE_WHILE_REVALIDATE: "listings=1ms",
    },
  });
  let round = 0;
  const as = (app: string): { headers: Record<string, string> } => ({ headers: { "x-app-id": app } });
  return {
    gateway,
    async traffic() {
      round += 1;
      // Misses, hits, an app that is not registered, a stream, a picture.
      await gateway.get(`/areas?q=place-${round}`, as("web"));
      await gateway.get(`/areas?q=place-${round}`, as("crm"));
      await gateway.get(`/sold?areaId=${round}`, as("unheard-of"));
      await gateway.get("/areas?q=Nacka", { headers: { "cache-control": "no-store" } });
      await gateway.get(`/cache/primary_${round}_100x60.jpg`, as("web"));
      // Expired since the last round: served stale while it is refreshed.
      await gateway.get(`/listings/${LISTING_ID}`, as("web"));
      // Mistakes.
      await gateway.get("/listings?limit=900", as("web"));
      await gateway.get("/nowhere");
      // Its two calls a day are soon spent: then it gets a stale answer or a refusal.
      await gateway.get("/listings?areaId=76&limit=1", as("poor"));
      await gateway.get(`/areas?q=nobody-asked-${round}`, as("poor"));
      // The upstream fails.
      gateway.sandbox.faults.add({ status: 500, times: 2, pathPrefix: "/sold" });
      await gateway.get(`/sold?areaId=9${round}`, as("web"));
      gateway.sandbox.faults.clear();
    },
  };
}
