import type { RequestRecord } from "../../types.ts";

const FORWARDED = {
  miss: "Nothing usable was cached.",
  stale: "The cached answer had expired, or was purged.",
  request: "The caller asked for a newer answer (Cache-Control).",
} as const;

/** @returns why a request was no hit, as a sentence for an operator */
export function whyNoHit({ outcome, forwarded, detail, problem }: RequestRecord): string {
  const why = forwarded === undefined ? "" : FORWARDED[forwarded];
  const because = detail === undefined ? "." : ` (${detail}).`;
  switch (outcome) {
    case "hit":
      return "It was a hit.";
    case "miss":
      if (problem !== undefined) return `The API was asked, and answered with a refusal (${problem}).`;
      return detail === undefined ? why : `${why} The new answer was not stored (${detail}).`;
    case "collapsed":
      return `${why} It joined the call of another request.`;
    case "updating":
      return `The cached answer had expired. It was served, and refreshed in the background${because}`;
    case "stale":
      return `The cached answer had expired. It was served because no new one could be had${because}`;
    case "bypass":
      return "It was passed through: the caller sent no-store, or answers at this path are not cached.";
    case "refused":
    case "failed":
      return `There was no answer: ${problem ?? outcome}.`;
    case "abandoned":
      return "The caller hung up before there was an answer.";
  }
}
