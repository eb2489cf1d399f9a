/**
 * Wires the upstream stage: both origins with their budgets. The JSON interface is signed, the thumbnails are not (interface,
 * sections 4.5 and 5).
 */
import type { PrivateKeys } from "../config/secrets/key-rotation.ts";
import { originOf } from "../interface/resources.ts";
import type { Random } from "../process/random.ts";
import type { Question } from "../query/question.ts";
import type { Budgets } from "../ratelimit/budgets.ts";
import type { CallOptions, Origin } from "./call.ts";
import { createAgent } from "./connections.ts";
import { createPassThrough, type PassThrough } from "./pass-through.ts";
import { type AskUpstream, createAsk } from "./retry.ts";
import { createSigner, type Sign, unsigned } from "./sign.ts";

export interface UpstreamOptions extends Omit<CallOptions, "originOf"> {
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
  const { upstream, keys, clock, random, budgets } = options;
  const sign = createSigner({
    callerId: upstream.callerId,
    privateKey: keys.current,
    now: clock.now,
    unique16: random.unique16,
  });
  const origin = (baseUrl: string, { run }: Pick<Budgets["api"], "run">, how: Sign): Origin => {
    return { baseUrl, agent: createAgent(baseUrl, upstream), sign: how, throttled: run };
  };
  const origins = {
    api: origin(upstream.url, budgets.api, sign),
    images: origin(upstream.imageUrl, budgets.images, unsigned),
  };
  const calls: CallOptions = { ...options, originOf: (resource) => origins[originOf(resource)] };
  const ask = createAsk(calls);
  let lastAnswered: Question | undefined;
  return {
    async ask(asking) {
      const fetched = await ask(asking);
      if (asking.question.query.resource !== "images") lastAnswered = asking.question;
      return fetched;
    },
    lastAnswered: () => lastAnswered,
    passThrough: createPassThrough(calls),
  };
}
