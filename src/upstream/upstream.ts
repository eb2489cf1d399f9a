/**
 * Wires the upstream stage: both origins with their budgets, the attempts and the pass-through. The JSON interface is signed,
 * the thumbnails are not (interface, sections 4.5 and 5).
 */
import type { LiveSettings } from "../config/live.ts";
import type { Config } from "../config/config.ts";
import type { PrivateKeys } from "../config/secrets/private-key.ts";
import { originOf } from "../interface/resources.ts";
import type { Random } from "../process/random.ts";
import type { Question } from "../query/question.ts";
import type { Budgets } from "../ratelimit/budgets.ts";
import { createAgent } from "./agent.ts";
import { type AskUpstream, type AttemptOptions, createAttempt } from "./attempt.ts";
import type { CallOptions, Origin } from "./call.ts";
import { createPassThrough, type PassThrough } from "./pass-through.ts";
import { createSigner, type Sign, unsigned } from "./sign.ts";

export interface UpstreamOptions extends Pick<CallOptions, "checkKeyFile" | "clock" | "observer"> {
  readonly config: Pick<Config, "upstream">;
  readonly settings: Pick<LiveSettings, "current">;
  readonly keys: PrivateKeys;
  readonly random: Pick<Random, "unique16" | "fraction">;
  readonly budgets: { readonly [origin in keyof Budgets]: Pick<Budgets[origin], "run"> };
}

export interface Upstream {
  /** Fetches the answer to a question. Rejects with a `Problem`. */
  readonly ask: AskUpstream;
  /** @returns the last question that the API has answered; a probe of the credentials repeats it */
  readonly lastAnswered: () => Question | undefined;
  readonly passThrough: PassThrough;
}

export function createUpstream(options: UpstreamOptions): Upstream {
  const { config, settings, keys, clock, random, budgets } = options;
  const { upstream } = config;
  const sign = createSigner({
    callerId: upstream.callerId,
    privateKey: keys.current,
    now: clock.now,
    unique16: random.unique16,
  });
  const origin = (baseUrl: string, signIt: Sign, { run }: (typeof budgets)["api"]): Origin => {
    return { baseUrl, agent: createAgent(baseUrl, upstream), sign: signIt, throttled: run };
  };
  const origins = {
    api: origin(upstream.url, sign, budgets.api),
    images: origin(upstream.imageUrl, unsigned, budgets.images),
  };
  const outgoing: AttemptOptions = {
    ...options,
    upstream,
    maxCoolOffMs: () => settings.current().budget.maxCoolOffMs,
    originOf: (resource) => origins[originOf(resource)],
  };
  const attempt = createAttempt(outgoing);
  let lastAnswered: Question | undefined;
  return {
    async ask(question, waiting, conditions) {
      const fetched = await attempt(question, waiting, conditions);
      if (question.query.resource !== "images") lastAnswered = question;
      return fetched;
    },
    lastAnswered: () => lastAnswered,
    passThrough: createPassThrough(outgoing),
  };
}
