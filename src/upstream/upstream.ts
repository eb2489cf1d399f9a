/**
 * Wires the upstream stage: both origins with their budgets, the attempts and the pass-through.
 */
import type { Budgets } from "../ratelimit/budgets.ts";
import type { Config } from "../config/config.ts";
import type { LiveSettings } from "../config/live.ts";
import type { PrivateKeys } from "../config/secrets/private-key.ts";
import { originOf, type OriginName } from "../interface/resources.ts";
import type { Waiting } from "../ratelimit/throttled.ts";
import type { Fetched } from "./fetched.ts";
import type { Clock } from "../process/clock.ts";
import type { Random } from "../process/random.ts";
import { upstreamTarget } from "../query/canonical.ts";
import type { Observer } from "../telemetry/events.ts";
import type { Question } from "../query/question.ts";
import { type AttemptOptions, createAttempt, type UpstreamQuestion } from "./attempt.ts";
import { createOrigin, type Origin } from "./origin.ts";
import { createPassThrough, type PassThrough } from "./pass-through.ts";
import { createSigner, type Sign, unsigned } from "./sign.ts";

export interface UpstreamOptions {
  readonly config: Config;
  readonly settings: LiveSettings;
  readonly keys: PrivateKeys;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
  readonly budgets: Budgets;
  /** Checks immediately whether there is a new private key. */
  readonly checkKeyFile: () => void;
}

export type AskUpstream = (
  question: Question,
  waiting: Waiting,
  conditions: Pick<UpstreamQuestion, "cause" | "cached" | "departing">,
) => Promise<Fetched>;

export interface Upstream {
  /** Fetches the answer to a question. Rejects with a `Problem`. */
  readonly ask: AskUpstream;
  /** @returns the last question that the API has answered; a probe of the credentials repeats it */
  readonly lastAnswered: () => Question | undefined;
  readonly passThrough: PassThrough;
}

/** The JSON interface is signed, the thumbnails are not (interface, sections 4.5 and 5). Each has its own budget. */
export function createUpstream(options: UpstreamOptions): Upstream {
  const { config, settings, keys, clock, random, observer, checkKeyFile } = options;
  const { upstream } = config;
  const sign = createSigner({
    callerId: upstream.callerId,
    privateKey: keys.current,
    now: clock.now,
    unique16: random.unique16,
  });
  const origins = createOrigins(options, sign);
  const targetOf = (asked: Parameters<typeof upstreamTarget>[0]): string =>
    upstreamTarget(asked, upstream.recordPath);
  const outgoing: AttemptOptions = {
    ...upstream,
    clock,
    random,
    observer,
    maxCoolOffMs: () => settings.current().budget.maxCoolOffMs,
    originOf: (resource) => origins[originOf(resource)],
    identity: upstream,
    confidential: () => [
      ...[upstream.url, upstream.imageUrl].map((url) => new URL(url).hostname),
      upstream.callerId,
      ...keys.known,
    ],
    credentials: { ...keys, checkAgain: checkKeyFile },
  };
  const attempt = createAttempt(outgoing);
  let lastAnswered: Question | undefined;
  return {
    async ask(asked, waiting, asking) {
      const { query, canonicalQuery, request } = asked;
      const { app, format } = request;
      const { resource } = query;
      const serviceId = query.kind === "record" ? query.serviceId : undefined;
      const question = { resource, query: canonicalQuery, target: targetOf(query), serviceId, format, app };
      const fetched = await attempt({ ...question, ...asking, trace: request.trace }, waiting);
      if (resource !== "images") lastAnswered = asked;
      return fetched;
    },
    lastAnswered: () => lastAnswered,
    passThrough: createPassThrough({ ...upstream, ...outgoing, targetOf }),
  };
}

/** @param sign adds the signature to a target of the API */
function createOrigins(
  { config: { upstream }, clock, budgets }: UpstreamOptions,
  sign: Sign,
): Readonly<Record<OriginName, Origin>> {
  const { http, https, except } = upstream.proxy;
  const proxy = { http: http?.reveal() ?? null, https: https?.reveal() ?? null, except };
  const api = createOrigin({
    ...upstream,
    clock,
    proxy,
    baseUrl: upstream.url,
    sign,
    throttled: budgets.api.run,
  });
  const images = createOrigin({
    ...upstream,
    clock,
    proxy,
    baseUrl: upstream.imageUrl,
    sign: unsigned,
    throttled: budgets.images.run,
  });
  return { api, images };
}
