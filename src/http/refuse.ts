/**
 * Where every journey that does not end well ends: a problem for the caller, and for us the log.
 */
import type { ServerResponse } from "node:http";

import { Problem } from "../errors.ts";
import type { Observer } from "../types.ts";
import type { Arrival } from "./arrive.ts";
import type { Respond } from "./respond.ts";

export type Refuse = (arrival: Arrival, error: unknown, response: ServerResponse) => void;

export function createRefuse(respond: Respond, observer: Observer): Refuse {
  return function refuse(arrival, error, response) {
    // The caller hung up, or the head is out already: there is nothing left to say but by hanging up.
    if (arrival.gone.aborted || response.headersSent) {
      response.destroy();
      return;
    }
    if (error instanceof Problem) {
      respond.problem(arrival, error, response);
      return;
    }
    observer.error("A request ended in an unexpected error; this is a mistake of the gateway.", {
      requestId: arrival.id,
      text: arrival.text,
      err: error,
    });
    respond.problem(arrival, new Problem("internal-error"), response);
  };
}
