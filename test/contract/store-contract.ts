import { randomBytes } from "node:crypto";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { transcode } from "../../src/cache/encoder.ts";
import type { Store } from "../../src/cache/store/port.ts";
import type { ContentCoding } from "../../src/content-codings.ts";
import type { Entry } from "../../src/cache/entry.ts";
import type { Clock } from "../../src/process/clock.ts";
import { createRandom } from "../support/random.ts";
import { entryWith, inFrames, keyOf } from "../support/entries.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";

/** An empty store. */
type StoreUnderTest = Store & { readonly close: () => Promise<void> };

/** The contract of every store. */
export function storeContract(name: string, create: (clock: Clock) => Promise<StoreUnderTest>): void {
  describe(`${name} keeps to the contract of stores:`, () => {
    let clock: FakeClock;
    let store: StoreUnderTest;

    beforeEach(async () => {
      // Stores with a clock of their own, such as Redis, count from now: the tests' time begins there.
      clock = createFakeClock(Date.now());
      store = await create(clock);
    });
    afterEach(() => store.close());

    /** Stores an entry under the name of its key. */
    const put = (name: string, entry: Entry) => store.set(keyOf(name), entry);
    const found = (name: string): Promise<Entry | undefined> => store.get(keyOf(name));
    /** The body of what is stored, uncoded. */
    async function bodyOf(name = "sold/1"): Promise<Buffer | undefined> {
      const entry = await found(name);
      return entry && (await transcode(entry, "identity"));
    }
    const textOf = async (name?: string): Promise<string | undefined> => (await bodyOf(name))?.toString();

    it("an entry is returned with every field", async () => {
      const entries = [
        entryWith("{}", clock.now()),
        ...([400, 404] as const).map((status) =>
          entryWith("gone", clock.now(), { status, contentType: "application/problem+json" }),
        ),
        entryWith("x", clock.now(), {
          validators: { etag: 'W/"7"', lastModified: "Thu, 01 Jan 2026 00:00:00 GMT" },
          tags: ["area:76", "record:1"],
          purgeEpoch: 7,
          bornAt: clock.now() - 5_000,
          upstreamStale: { whileRevalidateMs: 0, ifErrorMs: 60_000 },
          rates: { changes: 1.5, watchedMs: 60_000, requests: 7 },
        }),
      ];
      for (const [index, entry] of entries.entries()) {
        expect(await put(`sold/${index}`, entry)).toBe(true);
        const { bodies: _given, ...fields } = entry;
        const { bodies: _found, ...kept } = (await found(`sold/${index}`)) ?? { bodies: {} };
        expect(kept).toEqual(fields);
      }
    });

    it.each([
      ["no bytes", Buffer.alloc(0)],
      ["a few", Buffer.from([0, 255, 13, 10, 0])],
      ["text", Buffer.from("räksmörgås ".repeat(2_000))],
      ["noise", randomBytes(150_000)],
    ])("a body of %s is returned byte for byte", async (_name, body) => {
      const type = body.length === 150_000 ? "image/jpeg" : "application/json";
      await put("sold/1", entryWith(body, clock.now(), { contentType: type }));
      expect((await bodyOf())?.equals(body)).toBe(true);
    });

    it.each<[string, readonly ContentCoding[]]>([
      ["zstd", ["zstd"]],
      ["several codings", ["br", "identity", "gzip"]],
      ["frames", []],
    ])("an entry with encodings %s is returned as the same answer", async (_name, codings) => {
      const body = Buffer.from("räksmörgås ".repeat(2_000));
      const entry = entryWith(body, clock.now());
      const bodies: Entry["bodies"] = Object.fromEntries(
        await Promise.all(codings.map(async (coding) => [coding, await transcode(entry, coding)] as const)),
      );
      await put("sold/1", { ...entry, bodies: codings.length > 0 ? bodies : { packed: inFrames(body) } });
      expect((await bodyOf())?.equals(body)).toBe(true);
      const { bodyBytes, etag } = entry;
      expect(await found("sold/1")).toMatchObject({ bodyBytes, etag });
    });

    it.each(["listings?q=%C3%A5", "räk/smörgås 🦐", "a".repeat(8_000), "listings?areaId=1,76&q=%22%7B%7D*"])(
      "the key %# is kept apart from its neighbours",
      async (text) => {
        await put(text, entryWith("this", clock.now()));
        await put(`${text}x`, entryWith("that", clock.now()));
        expect(await textOf(text)).toBe("this");
      },
    );

    it("a stale entry is returned until keepUntil", async () => {
      const entry = entryWith("{}", clock.now());
      await put("sold/1", entry);
      for (const at of [entry.freshUntil + 1, entry.keepUntil - 1]) {
        clock.set(at);
        expect(await found("sold/1")).toBeDefined();
      }
      clock.set(entry.keepUntil);
      expect(await found("sold/1")).toBeUndefined();
    });

    it("only entries past keepUntil are removed when entries are counted", async () => {
      const at = clock.now();
      const brief = entryWith("{}", at, { keepUntil: at + 60_000 });
      await Promise.all(Array.from({ length: 600 }, (_, index) => put(`sold/${index}`, brief)));
      await put("listings/1", entryWith("kept", at, { keepUntil: at + 60_001 }));
      // A store may not know the number of its entries.
      for (const time of [at, at + 59_999]) {
        clock.set(time);
        expect([601, undefined]).toContain(store.stats()?.entries);
      }
      clock.set(at + 60_000);
      // A store may remove some at a time.
      for (let nth = 1; nth <= 3; nth++) store.stats();
      expect([1, undefined]).toContain(store.stats()?.entries);
      expect(await textOf("listings/1")).toBe("kept");
      expect(await found("sold/0")).toBeUndefined();
    });

    it.each([1, 2, 3])(
      "any writes, removals and waits leave what a map would have (seed %i)",
      async (seed) => {
        const random = createRandom(seed);
        const stored = new Map<string, Entry>();
        const outcomes = new Set<unknown>();
        for (let step = 0; step < 200; step++) {
          const name = `sold/${random.between(1, 4)}`;
          const now = clock.now();
          const what = random.pick(["put", "put", "put", "remove", "wait"]);
          if (what === "wait") clock.set(now + random.between(1, 10_000));
          if (what === "remove") await store.remove(keyOf(name));
          if (what === "remove") stored.delete(name);
          if (what === "put") {
            const keepUntil = now + random.between(1, 20_000);
            const entry = entryWith(`body ${step}`, now - random.between(0, 2), { keepUntil });
            const isOlder = entry.storedAt < (stored.get(name)?.storedAt ?? 0);
            const outcome = await put(name, entry);
            expect([step, outcome]).toEqual([step, isOlder ? "newer-stored" : true]);
            if (!isOlder) stored.set(name, entry);
            outcomes.add(outcome);
          }
          const left = stored.get(name);
          const isKept = left !== undefined && clock.now() < left.keepUntil;
          expect([step, (await found(name))?.etag]).toEqual([step, isKept ? left.etag : undefined]);
        }
        expect(outcomes).toEqual(new Set([true, "newer-stored"]));
      },
    );

    // Large and small bodies side by side: a compressed one is longer on its way than those after it.
    it.each([1, 2, 3, 4])(
      "of many who write at once the newest wins, whatever the order (seed %i)",
      async (seed) => {
        const at = clock.now();
        const random = createRandom(seed);
        const ages = random.shuffled(Array.from({ length: 60 }, (_, index) => index));
        const bodyOfAge = (age: number): string => `version ${age} `.repeat(age % 3 === 0 ? 20_000 : 1);
        await Promise.all(ages.map((age) => put("sold/1", entryWith(bodyOfAge(age), at + age))));
        expect(await textOf()).toBe(bodyOfAge(59));
      },
    );
  });
}
