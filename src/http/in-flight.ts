/**
 * The requests that have arrived and whose responses have not ended: to end them in order when the process
 * is to stop.
 */
import type { ServerResponse } from "node:http";

import type { Problem } from "../errors.ts";
import type { Arrival, Arrive } from "./arrive.ts";
import type { Refuse } from "./refuse.ts";

export interface UnderWay {
  /** @returns the same stage; those it greets are noted until their responses end */
  readonly noting: (arrive: Arrive, refuse: Refuse) => Arrive;
  /**
   * From now on every response, those of requests that are under way too, tells its connection to close
   * (RFC 9112, section 9.6): a caller, or a balancer, then opens its next one elsewhere, and no request
   * meets a connection that is just being closed.
   */
  readonly sayGoodbye: () => void;
  /** Refuses all that have no response yet. */
  readonly refuseAll: (problem: Problem) => void;
}

export function createUnderWay(): UnderWay {
  const noted = new Map<ServerResponse, { readonly arrival: Arrival; readonly refuse: Refuse }>();
  let isLast = false;

  return {
    noting: (arrive, refuse) =>
      function noteAndArrive(message, response) {
        if (isLast) sayClose(response);
        const arrival = arrive(message, response);
        noted.set(response, { arrival, refuse });
        response.once("close", () => noted.delete(response));
        return arrival;
      },
    sayGoodbye() {
      isLast = true;
      for (const response of noted.keys()) sayClose(response);
    },
    refuseAll(problem) {
      for (const [response, { arrival, refuse }] of noted) {
        if (!response.headersSent) refuse(arrival, problem, response);
      }
    },
  };
}

function sayClose(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader("Connection", "close");
}
