/** `POST /cache/purge`: declares cached answers out of date. */
import { z } from "zod";

import type { PurgeScope } from "../cache/store/purges.ts";
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
const KEY_EXPECTED =
  `must be a key as GET /cache/entry shows it: ${NAMESPACE}{json:areas?q=Nacka}. ` +
  'Use "url" for a URL in any spelling';

const BODY = z.strictObject(
  {
    url: ABOUT_URL.url.optional(),
    format: ABOUT_URL.format,
    key: z.string().refine(isOwnKey, KEY_EXPECTED).optional(),
    resource: z.enum([...SEARCH_RESOURCES, "images"]).optional(),
    tag: z
      .string()
      .regex(/^(area|record):\d+$/, "must be an area or a record with its number: area:76, record:123")
      .optional(),
    all: z.boolean().optional(),
    hard: z.boolean().default(false),
  },
  { error: (issue) => (issue.code === "invalid_type" ? ONE_SCOPE : undefined) },
);

export function purgeEndpoints(options: PurgeOptions): Endpoint[] {
  return [
    post("/cache/purge", BODY, async (body) => {
      const { scope, blocks } = scopesIn(body, options);
      let epoch = 0;
      for (const each of [...blocks, scope]) ({ epoch } = await options.purge(each, body.hard));
      const how = body.hard ? "They are never served again." : "They are stale until they are refreshed.";
      return { purged: scope, hard: body.hard, epoch, says: `Purged ${scopeText(scope)}. ${how}` };
    }),
  ];
}

/**
 * @returns the scope that the body names, and the blocks from which the page at its URL is cut. If only the page were
 *   purged, it would be cut from the same block again.
 */
function scopesIn(
  { url, format, key, resource, tag, all }: z.output<typeof BODY>,
  options: PurgeOptions,
): { scope: PurgeScope; blocks: readonly PurgeScope[] } {
  const asked = url === undefined ? undefined : askedFor({ url, format }, options);
  const scopes: readonly PurgeScope[] = [
    ...(asked === undefined ? [] : [{ kind: "key", key: asked.key } as const]),
    ...(key === undefined ? [] : [{ kind: "key", key } as const]),
    ...(resource === undefined ? [] : [{ kind: "resource", resource } as const]),
    ...(tag === undefined ? [] : [{ kind: "tag", tag } as const]),
    ...(all === true ? [{ kind: "all" } as const] : []),
  ];
  const [scope, ...others] = scopes;
  if (scope === undefined || others.length > 0) throw mistake(ONE_SCOPE);
  const keys = asked === undefined ? [] : options.pages.blockKeysOf(asked, format ?? "json");
  return { scope, blocks: keys.map((blockKey) => ({ kind: "key", key: blockKey })) };
}

function scopeText(scope: PurgeScope): string {
  if (scope.kind === "key") return `the answer ${scope.key}`;
  if (scope.kind === "resource") return `all answers of ${scope.resource}`;
  return scope.kind === "tag" ? `all answers about ${scope.tag}` : "all answers";
}
