/** `POST /cache/purge`: declares cached answers out of date. */
import { z } from "zod";

import type { PurgeScope } from "../cache/store/purge-marks.ts";
import { SEARCH_RESOURCES } from "../interface/resources.ts";
import { NAMESPACE } from "../query/key.ts";
import { type Endpoint, mistake, post } from "./endpoint.ts";
import { ABOUT_URL, askedFor, type Understanding } from "./explain.ts";

export interface PurgeOptions extends Understanding {
  /** Rejects with `StoreUnavailable` if it cannot reach every replica. */
  readonly purge: (scope: PurgeScope, hard: boolean) => Promise<{ readonly epoch: number }>;
}

const ONE_SCOPE =
  'Send JSON with one of "url", "key", "resource" (listings, sold, areas, images), "tag" (area:76, record:123) ' +
  'or "all": true. Add "hard": true if stale entries must not be served either.';

/** A key as `GET /cache/entry` shows it. A purge of another text would report success and purge nothing. */
const isOwnKey = (key: string): boolean =>
  key.startsWith(NAMESPACE) && /^\{(?:json|v2|jpeg):.+\}$/.test(key.slice(NAMESPACE.length));

const BODY = z.strictObject({
  url: ABOUT_URL.url.optional(),
  format: ABOUT_URL.format,
  key: z.string().refine(isOwnKey, "must be a key as GET /cache/entry shows it").optional(),
  resource: z.enum([...SEARCH_RESOURCES, "images"]).optional(),
  tag: z
    .string()
    .regex(/^(area|record):\d+$/, "must be an area or a record with its number: area:76, record:123")
    .optional(),
  all: z.boolean().optional(),
  hard: z.boolean().default(false),
});

export function purgeEndpoint(options: PurgeOptions): Endpoint {
  return post("/cache/purge", BODY, async ({ url, format, key, resource, tag, all, hard }) => {
    const asked = url === undefined ? undefined : askedFor(url, format, options);
    const [scope, ...others] = [
      asked && keyScope(asked.key),
      key === undefined ? undefined : keyScope(key),
      resource && ({ kind: "resource", resource } as const),
      tag === undefined ? undefined : ({ kind: "tag", tag } as const),
      all ? ({ kind: "all" } as const) : undefined,
    ].filter((one) => one !== undefined);
    if (scope === undefined || others.length > 0) throw mistake(ONE_SCOPE);
    // If only the page at a URL were purged, it would be cut from the same blocks again.
    const blocks = asked === undefined ? [] : options.pages.blockKeysOf(asked, format);
    let epoch = 0;
    for (const each of [...blocks.map(keyScope), scope]) ({ epoch } = await options.purge(each, hard));
    const how = hard ? "never served again" : "stale until they are refreshed";
    return { purged: scope, hard, epoch, says: `Purged ${scopeText(scope)}. Purged answers are ${how}.` };
  });
}

const keyScope = (key: string): PurgeScope => ({ kind: "key", key });

function scopeText(scope: PurgeScope): string {
  if (scope.kind === "key") return `the answer ${scope.key}`;
  if (scope.kind === "resource") return `all answers of ${scope.resource}`;
  return scope.kind === "tag" ? `all answers about ${scope.tag}` : "all answers";
}
