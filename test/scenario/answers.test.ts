import { describe, expect, it } from "vitest";

import { askDirectly } from "../support/direct.ts";
import { startGateway } from "../support/gateway.ts";

describe("an answer", () => {
  it.each([
    ["/listings?areaId=76&limit=20", "/listings?areaId=76&limit=20&offset=0"],
    ["/listings?objectType=villa,l%C3%A4genhet&minRooms=2&offset=35", undefined],
    ["/sold?minSoldPrice=2000000&limit=5&offset=0&undefined=", undefined],
    ["/areas?q=Nacka", undefined],
    ["/areas?lat=59.31&lng=18.16&limit=3", undefined],
    ["/listings", "/listings?offset=0"],
  ])("to %s is the upstream's body, byte for byte", async (target, sent = target) => {
    const gateway = await startGateway();
    const answer = await gateway.get(target);
    expect(answer.status).toBe(200);
    expect(answer.text).toBe((await askDirectly(gateway.sandboxUrl, sent)).text);
    expect(answer.headers["content-type"]).toBe("application/json");
  });

  it("with a single record is the upstream's body", async () => {
    const gateway = await startGateway();
    const id = [...gateway.sandbox.data.listingById.keys()][0];
    const [answer, direct] = await Promise.all([
      gateway.get(`/listings/${id}`),
      askDirectly(gateway.sandboxUrl, `/listings/${id}`),
    ]);
    expect(answer.text).toBe(direct.text);
    expect(answer.headers["cache-control"]).toMatch(/^max-age=(600|599)$/);
  });

  it("with a thumbnail is the picture for any accepted image type, requested unsigned", async () => {
    const gateway = await startGateway();
    const id = [...gateway.sandbox.data.listingById.keys()][0];
    const target = `/cache/primary_${id}_140x94.jpg`;
    const answer = await gateway.get(target, { headers: { accept: "image/avif,image/webp,image/*;q=0.8" } });
    expect(answer.headers["content-type"]).toBe("image/jpeg");
    expect(answer.body.subarray(0, 2)).toEqual(Buffer.from([0xff, 0xd8]));
    expect(gateway.sandbox.requests().map(({ path, query }) => `${path}?${query}`)).toEqual([`${target}?`]);
  });
});
