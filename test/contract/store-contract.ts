/**
 * What every store of entries promises, whatever it keeps them in.
 */
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";

import type { Store } from "../../src/cache/store.ts";
import type { Entry } from "../../src/exchange.ts";
import { createDice } from "../support/dice.ts";

/** A store on its own, empty. */
export interface OpenStore {
  readonly store: Store;
  close(): Promise<void>;
}

/** What a store can hold at the most, where it has a bound of its own. */
export interface StoreBounds {
  /** All entries together. */
  readonly totalBytes: number;
  /** The largest body that is certain to be refused; one of a quarter of it is certain to be kept. */
  readonly refusedBytes: number;
}

/** An entry with all its fields, any of which can be given another value. */
export function entryWith(change: Partial<Entry> = {}): Entry {
  return {
    status: 200,
    contentType: "application/json; charset=utf-8",
    body: Buffer.from('{"count":0,"listings":[]}'),
    encoded: {},
    etag: "abcdefghijklmnopqrstuv",
    lastModified: "Thu, 15 Jan 2026 11:00:00 GMT",
    storedAt: 1_768_478_400_000,
    freshUntil: 1_768_478_700_000,
    ...change,
  };
}

/**
 * Registers the tests that a store must pass.
 * @param createStore opens an empty store, apart from all others
 * @param bounds left out for a store that is bounded from outside, by its server
 */
export function storeContract(
  name: string,
  createStore: () => Promise<OpenStore>,
  bounds?: StoreBounds,
): void {
  async function open(): Promise<Store> {
    const opened = await createStore();
    onTestFinished(() => opened.close());
    return opened.store;
  }

  describe(`${name}: what is kept`, () => keepsWhatItIsGiven(open));
  describe(`${name}: older and newer`, () => keepsTheNewest(open));
  if (bounds) describe(`${name}: large and many`, () => keepsWithinBounds(open, bounds));
}

type Open = () => Promise<Store>;

function keepsWhatItIsGiven(open: Open): void {
  it("is not there before it is set", async () => {
    expect(await (await open()).get("property-gateway:1:json:listings?offset=0")).toBeUndefined();
  });

  it("comes back as it was set, field by field", async () => {
    const store = await open();
    const entry = entryWith();
    expect(await store.set("key", entry)).toBe(true);
    expect(await store.get("key")).toEqual(entry);
  });

  it.each<[string, Partial<Entry>]>([
    ["every byte there is", { body: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)) }],
    ["bytes that are no text", { body: Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28, 0x0d, 0x0a]) }],
    ["no bytes", { body: Buffer.alloc(0) }],
    ["a refusal", { status: 404, contentType: "application/problem+json" }],
    ["no date of change", { lastModified: undefined }],
    ["no time to live", { freshUntil: 1_768_478_400_000 }],
    [
      "bodies in further codings",
      {
        encoded: {
          gzip: Buffer.from([0x1f, 0x8b, 0x00, 0xff]),
          br: Buffer.alloc(0),
          zstd: Buffer.from([0xb5]),
        },
      },
    ],
  ])("may have %s", async (_name, change) => {
    const store = await open();
    const entry = entryWith(change);
    expect(await store.set("key", entry)).toBe(true);
    expect(await store.get("key")).toEqual(entry);
  });

  it("has any text for a key, and each key its own entry", async () => {
    const store = await open();
    const keys = [
      "property-gateway:1:json:listings?areaId=1,76&objectType=villa,radhus&limit=50&offset=0",
      "property-gateway:1:v2:listings?areaId=1,76&objectType=villa,radhus&limit=50&offset=0",
      "",
      " ",
      "a",
      "A",
      "a ",
      "areas?q=Södermalm",
      "areas?q=Södermalm".normalize("NFD"),
      "areas?q=🏠",
      "areas?q=*",
      "areas?q=[a]?",
      "areas?q=\n\u0000",
      "areas?q='; DROP TABLE entries; --",
      "__proto__",
      "constructor",
      `areas?q=${"x".repeat(8_000)}`,
      `areas?q=${"x".repeat(8_000)}y`,
    ];
    for (const [index, key] of keys.entries()) await store.set(key, entryWith({ etag: `tag${index}` }));
    const tags = await Promise.all(keys.map(async (key) => (await store.get(key))?.etag));
    expect(tags).toEqual(keys.map((_key, index) => `tag${index}`));
  });

  it("comes back the same for any key and body", async () => {
    const store = await open();
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: "grapheme", maxLength: 40 }),
        fc.uint8Array({ maxLength: 200 }),
        fc.uint8Array({ maxLength: 200 }),
        async (key, body, coded) => {
          const entry = entryWith({ body: Buffer.from(body), encoded: { br: Buffer.from(coded) } });
          expect(await store.set(key, entry)).toBe(true);
          expect(await store.get(key)).toEqual(entry);
        },
      ),
      { numRuns: 50 },
    );
  });
}

function keepsTheNewest(open: Open): void {
  it("a newer entry takes the place of an older one", async () => {
    const store = await open();
    await store.set("key", entryWith({ storedAt: 1_000 }));
    const newer = entryWith({ storedAt: 1_001, etag: "newer", body: Buffer.from("newer") });
    expect(await store.set("key", newer)).toBe(true);
    expect(await store.get("key")).toEqual(newer);
  });

  it("an older entry does not take the place of a newer one, and its writer is told", async () => {
    const store = await open();
    const newer = entryWith({ storedAt: 1_001, etag: "newer" });
    await store.set("key", newer);
    const older = entryWith({ storedAt: 1_000, etag: "older", freshUntil: 9_999_999_999_999 });
    expect(await store.set("key", older)).toBe("newer-stored");
    expect(await store.get("key")).toEqual(newer);
  });

  it("the same entry with a further coding takes its own place", async () => {
    const store = await open();
    const entry = entryWith();
    await store.set("key", entry);
    const coded = { ...entry, encoded: { gzip: Buffer.from("coded") } };
    expect(await store.set("key", coded)).toBe(true);
    expect(await store.get("key")).toEqual(coded);
  });

  it("one key's entries say nothing of another's", async () => {
    const store = await open();
    await store.set("one", entryWith({ storedAt: 2_000 }));
    expect(await store.set("other", entryWith({ storedAt: 1_000 }))).toBe(true);
  });

  it("the newest of concurrent writers is what stays, whole", async () => {
    const store = await open();
    const seed = Math.floor(Math.random() * 2 ** 31);
    const instants = createDice(seed).shuffled(Array.from({ length: 100 }, (_, index) => 1_000 + index));
    const entries = instants.map((storedAt) =>
      entryWith({ storedAt, etag: `tag${storedAt}`, body: Buffer.alloc(storedAt, storedAt % 256) }),
    );
    const results = await Promise.all(entries.map((entry) => store.set("key", entry)));
    expect(new Set(results).difference(new Set([true, "newer-stored"])), `seed ${seed}`).toEqual(new Set());
    expect(results[instants.indexOf(1_099)], `seed ${seed}`).toBe(true);
    expect(await store.get("key"), `seed ${seed}`).toEqual(entries[instants.indexOf(1_099)]);
  });

  it("who reads while others write gets whole entries, never going back in time", async () => {
    const store = await open();
    const key = "key";
    const write = async (): Promise<void> => {
      for (let storedAt = 1_000; storedAt < 1_100; storedAt++) {
        await store.set(key, entryWith({ storedAt, body: Buffer.from(String(storedAt)) }));
      }
    };
    const seen: number[] = [];
    const read = async (): Promise<void> => {
      for (let times = 0; times < 100; times++) {
        const entry = await store.get(key);
        if (entry === undefined) continue;
        expect(entry.body.toString()).toBe(String(entry.storedAt));
        seen.push(entry.storedAt);
      }
    };
    await Promise.all([write(), write(), read()]);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect((await store.get(key))?.storedAt).toBe(1_099);
  });
}

function keepsWithinBounds(open: Open, { totalBytes, refusedBytes }: StoreBounds): void {
  const tooLarge = Buffer.alloc(refusedBytes, 1);
  const large = Buffer.alloc(Math.floor(refusedBytes / 4), 2);

  it("an entry that is too large is refused, and the rest is untouched", async () => {
    const store = await open();
    const entry = entryWith();
    for (const key of ["one", "two", "three"]) await store.set(key, entry);
    expect(await store.set("large", entryWith({ body: tooLarge }))).toBe("too-large");
    expect(await store.get("large")).toBeUndefined();
    for (const key of ["one", "two", "three"]) expect(await store.get(key)).toEqual(entry);
  });

  it("an entry that is too large leaves the one in its place where it is", async () => {
    const store = await open();
    const entry = entryWith({ storedAt: 1_000 });
    await store.set("key", entry);
    expect(await store.set("key", entryWith({ storedAt: 1_001, body: tooLarge }))).toBe("too-large");
    expect(await store.get("key")).toEqual(entry);
  });

  it("a further coding that makes an entry too large costs the coding, not the entry", async () => {
    const store = await open();
    const entry = entryWith({ body: large });
    expect(await store.set("key", entry)).toBe(true);
    expect(await store.set("key", { ...entry, encoded: { gzip: tooLarge } })).toBe("too-large");
    expect(await store.get("key")).toEqual(entry);
  });

  it("all together never outgrow the bound, and the latest are there", async () => {
    const store = await open();
    const keys = Array.from(
      { length: Math.ceil((totalBytes / large.length) * 3) },
      (_, index) => `key${index}`,
    );
    for (const key of keys) expect(await store.set(key, entryWith({ body: large }))).toBe(true);
    const found = await Promise.all(keys.map((key) => store.get(key)));
    const bytes = found.reduce((sum, entry) => sum + (entry?.body.length ?? 0), 0);
    expect(bytes).toBeLessThanOrEqual(totalBytes);
    expect(bytes).toBeGreaterThan(totalBytes / 2);
    expect(found.at(-1)).toBeDefined();
    expect(found.at(0)).toBeUndefined();
  });

  it("many small ones never outgrow the bound either: each weighs more than its body", async () => {
    const store = await open();
    const count = Math.ceil(totalBytes / 100);
    for (let index = 0; index < count; index++) {
      await store.set(`key${index}`, entryWith({ body: Buffer.alloc(1) }));
    }
    let kept = 0;
    for (let index = 0; index < count; index++)
      kept += (await store.get(`key${index}`)) === undefined ? 0 : 1;
    // A body of one byte comes with a key, a type, a tag and two instants.
    expect(kept * 100).toBeLessThan(totalBytes);
    expect(kept).toBeGreaterThan(0);
  });
}
