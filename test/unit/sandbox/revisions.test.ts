import { describe, expect, it } from "vitest";

import { createRevisions, revisedRecord } from "../../../src/sandbox/revisions.ts";
import { DATA, NOW_MS, call, parsed, signed, started } from "./support.ts";
import type { Reply } from "./support.ts";

const LISTING = DATA.listings[0]!.record;
const SOLD = DATA.sold[0]!.record;
const IMAGE = `/cache/primary_${LISTING.serviceId}_40x30.jpg`;

/** The records of an answer, without what a revision changes. */
function unchanging(reply: Reply): unknown {
  return JSON.parse(reply.text, (name, value: unknown) =>
    ["listPrice", "soldPrice", "pageviews", "fullName"].includes(name) ? undefined : value,
  ) as unknown;
}

describe("the revisions", () => {
  it("are counted over all paths, and the last matching one applies", () => {
    let nowMs = NOW_MS;
    const revisions = createRevisions(() => nowMs);
    const start = revisions.of("/sold");
    expect(start).toEqual({ revision: 0, changedAt: NOW_MS - 3_600_000 });
    revisions.add("/sold");
    nowMs += 1000;
    revisions.add();
    nowMs += 1000;
    revisions.add("/sold");
    expect(revisions.of("/sold/1")).toEqual({ revision: 3, changedAt: NOW_MS + 2000 });
    expect(revisions.of("/listings")).toEqual({ revision: 2, changedAt: NOW_MS + 1000 });
    expect(revisions.list()).toEqual([
      { revision: 2, pathPrefix: "", at: NOW_MS + 1000 },
      { revision: 3, pathPrefix: "/sold", at: NOW_MS + 2000 },
    ]);
    revisions.clear();
    expect(revisions.of("/sold")).toEqual(start);
    revisions.add("/sold");
    expect(revisions.of("/sold").revision).toBe(1);
  });

  it("change every record", () => {
    const records = [...DATA.listings, ...DATA.sold, ...DATA.areas].map(({ record }) => record);
    const alike = records.filter((record) => {
      const looks = [0, 1, 2].map((revision) => JSON.stringify(revisedRecord(record, revision)));
      return new Set(looks).size < 3;
    });
    expect(alike).toEqual([]);
  });
});

describe("revised data", () => {
  it.each([
    "/listings?limit=5",
    `/listings/${LISTING.serviceId}`,
    "/sold?limit=5&offset=3",
    `/sold/${SOLD.serviceId}`,
    "/areas?q=nacka",
  ])("at %s has other content in the same records each time", async (path) => {
    const { sandbox, url } = await started();
    const ask = (): Promise<Reply> => call(url + signed(path));
    const replies = [await ask()];
    for (const _ of [1, 2]) {
      sandbox.revise();
      replies.push(await ask());
      expect((await ask()).text).toBe(replies.at(-1)!.text);
    }
    expect(new Set(replies.map(({ text }) => JSON.stringify(JSON.parse(text)))).size).toBe(3);
    for (const reply of replies) expect(unchanging(reply)).toEqual(unchanging(replies[0]!));
    sandbox.reset();
    expect((await ask()).text).toBe(replies[0]!.text);
  });

  it("of thumbnails are other files with the same image", async () => {
    const { sandbox, url } = await started();
    const before = (await call(url + IMAGE)).body;
    sandbox.revise({ pathPrefix: "/cache/" });
    const after = (await call(url + IMAGE)).body;
    // The application segment of 18 bytes, then a comment, then everything as before.
    const comment = Buffer.from("revision 1");
    expect(after).toEqual(
      Buffer.concat([
        before.subarray(0, 20),
        Buffer.from([0xff, 0xfe, 0, comment.length + 2]),
        comment,
        before.subarray(20),
      ]),
    );
  });

  it("have other validators, and do not change those of other paths", async () => {
    let nowMs = NOW_MS;
    const { sandbox, url } = await started({ now: () => nowMs });
    sandbox.set({ validators: "both" });
    const ask = (path: string, headers = {}): Promise<Reply> =>
      call(url + signed(path), { headers: { Accept: "*/*", ...headers } });
    const [sold, listings] = [await ask("/sold"), await ask("/listings")];
    nowMs += 60_000;
    sandbox.revise({ pathPrefix: "/sold" });
    const lastModified = new Date(nowMs).toUTCString();
    nowMs += 60_000;
    const since = { "If-Modified-Since": sold.headers["last-modified"] };
    const tag = { "If-None-Match": sold.headers.etag };
    for (const conditions of [since, tag]) {
      const reply = await ask("//sold/", conditions);
      expect(reply).toMatchObject({ status: 200, headers: { "last-modified": lastModified } });
      expect(reply.headers.etag).not.toBe(sold.headers.etag);
    }
    expect((await ask("/listings", { "If-None-Match": listings.headers.etag })).status).toBe(304);
    expect((await ask("/listings", since)).status).toBe(304);
  });

  it("are added and shown by the control port", async () => {
    const { sandbox, url } = await started();
    const control = (await sandbox.listenControl()).url;
    const post = (path: string, body: unknown): Promise<Reply> =>
      call(control + path, { method: "POST", body: JSON.stringify(body) });
    const before = await call(url + signed("/sold"));
    expect((await post("/settings", { validators: "etag" })).status).toBe(200);
    expect((await post("/revise", { pathPrefix: "/sold" })).status).toBe(200);
    expect((await call(`${control}/revise`, { method: "POST" })).status).toBe(200);
    expect((await post("/faults", { headers: { age: "5" }, respell: true, times: 1 })).status).toBe(200);
    expect(parsed(await call(control))).toEqual(sandbox.state());
    expect(sandbox.state()).toMatchObject({
      validators: "etag",
      revisions: [
        { revision: 1, pathPrefix: "/sold", at: NOW_MS },
        { revision: 2, pathPrefix: "", at: NOW_MS },
      ],
      faults: [{ headers: { age: "5" }, respell: true, times: 1 }],
    });
    const after = await call(url + signed("/sold"));
    expect(after.headers).toMatchObject({ age: "5", etag: expect.stringMatching(/^".+"$/) as unknown });
    expect(parsed(after)).not.toEqual(parsed(before));
    await post("/reset", {});
    expect(sandbox.state()).toMatchObject({ validators: "none", revisions: [], faults: [] });
    expect((await call(url + signed("/sold"))).text).toBe(before.text);
  });
});
