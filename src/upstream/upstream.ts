/**
 * Wires the upstream stage: both origins with their budgets. The JSON interface is signed, the thumbnails are not (interface,
 * sections 4.5 and 5).
 */
import { originOf } from "../interface/resources.ts";
import type { Question } from "../query/request.ts";
import type { Budgets } from "../ratelimit/budgets.ts";
import type { CallOptions, Origin } from "./call.ts";
import { createAgent } from "./connections.ts";
import { createPassThrough } from "./pass-through.ts";
import { type AskUpstream, createAsk } from "./retry.ts";
import { createSigner, type Sign, unsigned } from "./sign.ts";

export interface UpstreamOptions extends Omit<CallOptions, "originOf"> {
  readonly budgets: Readonly<Record<"api" | "images", Pick<Budgets["api"], "run">>>;
}

export type Upstream = ReturnType<typeof createUpstream>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createUpstream(options: UpstreamOptions) {
  const { upstream, keys, clock, random, budgets } = options;
  const sign = createSigner(upstream.callerId, keys.current, clock.now, random.unique16);
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
    /** Fetches the answer to a question. Rejects with a `Problem`. */
    ask: async (asking: Parameters<AskUpstream>[0]): ReturnType<AskUpstream> => {
      const fetched = await ask(asking);
      if (asking.question.query.resource !== "images") lastAnswered = asking.question;
      return fetched;
    },
    /** @returns the last question that the API has answered; a probe of the credentials repeats it */
    lastAnswered: (): Question | undefined => lastAnswered,
    passThrough: createPassThrough(calls),
  };
}
