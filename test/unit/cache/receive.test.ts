import { gzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import type { CacheRules } from "../../../src/cache/freshness.ts";
import { type Received, receive } from "../../../src/cache/receive.ts";
import type { Entry, Fetched, FetchedAnswer } from "../../../src/types.ts";
import { entryWith, fetchedWith, NO_CACHING_HEADERS, notModifiedWith } from "../../support/entries.ts";
import { SEARCH } from "../../support/question.ts";
import { each, rulesWith } from "../../support/rules.ts";

const MINUTE = 60_000;
const NOW = Date.UTC(2026, 0, 15, 12);
const RULES = rulesWith({ ttlMs: each(5 * MINUTE) });
const VALIDATORS = { etag: '"1"', lastModified: "Thu, 15 Jan 2026 11:00:00 GMT" };

const received = (
  fetched: Fetched,
  cached?: Entry,
  rules: CacheRules = RULES,
  now = NOW,
): Promise<Received> => receive(SEARCH, fetched, cached, { now, fetchMs: 80, purgeEpoch: 4 }, rules);

/** An older cached answer with the same body as `fetchedWith`. */
function heldWith(changes: Partial<Entry> = {}): Entry {
  return entryWith("{}", NOW - 10 * MINUTE, {
    etag: "as-callers-know-it",
    validators: VALIDATORS,
    ...changes,
  });
}

describe("an answer where nothing was cached", () => {
  it("becomes an entry with its Age and its lifetime, without a change", async () => {
    const fetched = fetchedWith({ validators: VALIDATORS, caching: { ...NO_CACHING_HEADERS, ageMs: 2_000 } });
    const { entry, mayStore, change } = await received(fetched);
    expect(entry).toMatchObject({
      status: 200,
      storedAt: NOW,
      bornAt: NOW - 2_000,
      freshUntil: NOW + 5 * MINUTE,
      keepUntil: NOW + RULES.retentionMs,
      fetchMs: 80,
      purgeEpoch: 4,
      validators: VALIDATORS,
    });
    expect([mayStore, change]).toEqual([true, undefined]);
  });

  it("is refused if it is older than maxAgeEver", async () => {
    const aged = (ageMs: number): Promise<Received> =>
      received(fetchedWith({ caching: { ...NO_CACHING_HEADERS, ageMs } }), undefined, RULES);
    expect((await aged(RULES.maxAgeEverMs)).entry.bornAt).toBe(NOW - RULES.maxAgeEverMs);
    await expect(aged(RULES.maxAgeEverMs + 1)).rejects.toMatchObject({ code: "upstream-invalid-response" });
  });
});

describe("an answer where one was cached", () => {
  it("with the same content keeps the cached body and ETag, and is new", async () => {
    const cached = heldWith({ bodies: { identity: Buffer.from("{}"), gzip: Buffer.from("zipped") } });
    const newer = { etag: '"2"', lastModified: undefined };
    const { entry, change } = await received(
      fetchedWith({ body: Buffer.from(" { } "), validators: newer }),
      cached,
    );
    expect(change).toBe("unchanged");
    expect(entry).toMatchObject({
      etag: cached.etag,
      bodies: cached.bodies,
      bodyBytes: 2,
      validators: newer,
    });
    expect(entry).toMatchObject({ storedAt: NOW, bornAt: NOW, freshUntil: NOW + 5 * MINUTE, purgeEpoch: 4 });
  });

  it("is compared with a cached body that exists only encoded", async () => {
    const cached = heldWith({ bodies: { gzip: gzipSync('{"a":1}') }, bodyBytes: 7 });
    expect((await received(fetchedWith({ body: Buffer.from('{"a":1}') }), cached)).change).toBe("unchanged");
    expect((await received(fetchedWith({ body: Buffer.from('{"a":2}') }), cached)).change).toBe("changed");
  });

  it.each<[string, Partial<FetchedAnswer>]>([
    ["another body", { body: Buffer.from('{"a":1}') }],
    ["another status", { status: 404 }],
    ["another media type", { contentType: "application/vnd.propertyservice-v2+json" }],
  ])("that has %s replaces it", async (_name, differing) => {
    const cached = heldWith();
    const fetched = fetchedWith(differing);
    const { entry, change } = await received(fetched, cached);
    expect(change).toBe("changed");
    expect(entry.etag).not.toBe(cached.etag);
    const { status, contentType, body } = fetched;
    expect(entry).toMatchObject({ status, contentType, bodies: { identity: body }, bodyBytes: body.length });
    expect(entry.validators).toEqual({ etag: undefined, lastModified: undefined });
  });

  it("confirmed by a 304 keeps the cached body and the validators that the 304 does not repeat", async () => {
    const cached = heldWith();
    const { entry, change } = await received(
      notModifiedWith({
        validators: { etag: 'W/"1"', lastModified: undefined },
        caching: { ...NO_CACHING_HEADERS, ageMs: 500, freshForMs: MINUTE },
      }),
      cached,
    );
    expect(change).toBe("not-modified");
    expect(entry).toMatchObject({
      status: 200,
      etag: cached.etag,
      bodies: cached.bodies,
      validators: { etag: 'W/"1"', lastModified: VALIDATORS.lastModified },
      storedAt: NOW,
      bornAt: NOW - 500,
      freshUntil: NOW + MINUTE,
      keepUntil: NOW + RULES.retentionMs,
    });
  });
});
