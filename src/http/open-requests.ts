/**
 * Tracks the requests in flight: those that have arrived and whose responses have not ended. When the process stops, each
 * of them is finished or refused.
 */
import type { ServerResponse } from "node:http";

import type { Problem } from "../errors.ts";
import type { Arrival, Arrivals } from "./arrive.ts";
import type { Refuse } from "./respond.ts";

export interface OpenRequests {
  /** @returns the same stages, which now also track each request until its response ends */
  readonly tracking: (arrivals: Arrivals, refuse: Refuse) => Arrivals;
  /**
   * Adds `Connection: close` to every response from now on (RFC 9112, section 9.6). Callers and load balancers then open
   * their next connection to another replica, and send no request on a connection that is about to close.
   */
  readonly drain: () => void;
  /** Refuses every request that has no response yet. */
  readonly refuseAll: (problem: Problem) => void;
}

export function createOpenRequests(): OpenRequests {
  const tracked = new Map<ServerResponse, { readonly arrival: Arrival; readonly refuse: Refuse }>();
  let isDraining = false;

  return {
    tracking: ({ arrive, follow }, refuse) => ({
      arrive(message, response) {
        if (isDraining) closeAfterResponse(response);
        return arrive(message, response);
      },
      follow(arrival, message, response) {
        follow(arrival, message, response);
        // Once the head of a response is sent, the response can be neither refused nor changed.
        if (response.headersSent) return;
        tracked.set(response, { arrival, refuse });
        response.once("close", () => tracked.delete(response));
      },
    }),
    drain() {
      isDraining = true;
      for (const response of tracked.keys()) closeAfterResponse(response);
    },
    refuseAll(problem) {
      for (const [response, { arrival, refuse }] of tracked) {
        if (!response.headersSent) refuse(arrival, problem, response);
      }
    },
  };
}

function closeAfterResponse(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader("Connection", "close");
}
