/**
 * The way to the upstream: attempt [ throttle → sign → fetch ], and streaming what is not kept.
 */
import type { Budgets } from "./draw-budgets.ts";
import type { Fetched, Observer, Question, Waiting } from "./exchange.ts";
import type { Resource } from "./interface/resources.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import { upstreamTarget } from "./query/text.ts";
import type { Surroundings } from "./surroundings.ts";
import { createAttempt, type UpstreamQuestion } from "./upstream/attempt.ts";
import { createOrigin, type Origin } from "./upstream/origin.ts";
import { createPassThrough, type PassThrough } from "./upstream/pass-through.ts";
import { createSigner } from "./upstream/sign.ts";

export interface UpstreamParts {
  readonly budgets: Budgets;
  readonly observer: Observer;
  /** There may be a new private key: looks now. */
  readonly lookForKey: () => void;
}

export interface Upstream {
  /** Asks a question; rejects with a `Problem`. */
  readonly ask: (
    question: Question,
    waiting: Waiting,
    asking: Pick<UpstreamQuestion, "cause" | "held" | "departing">,
  ) => Promise<Fetched>;
  readonly passThrough: PassThrough;
}

export function drawUpstream(surroundings: Surroundings, parts: UpstreamParts): Upstream {
  const { config, settings, keys, clock, random } = surroundings;
  const { upstream } = config;
  const budget = settings.section("budget");
  const outward = {
    ...upstream,
    get maxCoolOffMs() {
      return budget.maxCoolOffMs;
    },
    originOf: drawOrigins(surroundings, parts),
    identity: upstream,
    confidential: {
      hosts: [upstream.url, upstream.imageUrl].map((url) => new URL(url).host),
      callerId: upstream.callerId,
      secrets: keys.known,
    },
    targetOf: (asked: Query | StreamedQuery): string => upstreamTarget(asked, upstream.recordPath),
    credentials: { version: keys.version, lookAgain: parts.lookForKey },
    clock,
    random,
    observer: parts.observer,
  };
  const attempt = createAttempt(outward);
  return {
    ask({ query, text, request: { app, format } }, waiting, asking) {
      const { resource } = query;
      const target = outward.targetOf(query);
      const serviceId = query.kind === "record" ? query.serviceId : undefined;
      return attempt({ resource, text, target, serviceId, format, app, ...asking }, waiting);
    },
    passThrough: createPassThrough(outward),
  };
}

/** The JSON interface is signed; the thumbnails are not (interface, sections 4.5 and 5). Each has its budget. */
function drawOrigins(
  { config, keys, clock, random }: Surroundings,
  { budgets }: UpstreamParts,
): (resource: Resource) => Origin {
  const { upstream } = config;
  const api = createOrigin({
    ...upstream,
    clock,
    baseUrl: upstream.url,
    throttled: budgets.api.throttle.throttled,
    sign: createSigner({
      callerId: upstream.callerId,
      privateKey: keys.current,
      now: clock.now,
      unique16: random.unique16,
    }),
  });
  const images = createOrigin({
    ...upstream,
    clock,
    baseUrl: upstream.imageUrl,
    throttled: budgets.images.throttle.throttled,
    sign: (target) => target,
  });
  return (resource) => (resource === "images" ? images : api);
}
