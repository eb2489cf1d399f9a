/**
 * Limits pipelined requests. At most a few requests of a connection are worked on at once, so that their responses do not
 * fill the memory. The others wait, and the connection is not read meanwhile.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

import { isSent } from "./connections.ts";

/** The most requests of one connection that are worked on at once. */
const MAX_WORKING = 3;
/** The most pipelined requests on one connection. A client that reads its responses does not send so many. */
const MAX_PIPELINED = 100;

interface Pipeline {
  /** The responses that have begun and not ended. */
  readonly working: Set<ServerResponse>;
  /** Each handles a waiting request. */
  readonly waiting: (() => void)[];
}

type Handle = (message: IncomingMessage, response: ServerResponse) => void;

/** @returns `handle` for requests that arrive on connections, in their order */
export function limitPipelining(handle: Handle): Handle {
  const pipelines = new WeakMap<Socket, Pipeline>();

  function pipelineOf(socket: Socket): Pipeline {
    const known = pipelines.get(socket);
    if (known !== undefined) return known;
    const pipeline: Pipeline = { working: new Set(), waiting: [] };
    pipelines.set(socket, pipeline);
    // Node does not close a pipelined response that never had the socket. Its request would go on after a hang-up.
    socket.once("close", () => {
      for (const response of pipeline.working) if (response.socket === null) response.emit("close");
    });
    return pipeline;
  }

  function begin(message: IncomingMessage, response: ServerResponse, { working, waiting }: Pipeline): void {
    const { socket } = message;
    handle(message, response);
    if (isSent(response)) return;
    working.add(response);
    response.once("close", () => {
      working.delete(response);
      if (waiting.length === 0 || socket.destroyed) return;
      while (waiting.length > 0 && working.size < MAX_WORKING) waiting.shift()?.();
      if (waiting.length === 0) socket.resume();
    });
  }

  return (message, response) => {
    const { socket } = message;
    const pipeline = pipelineOf(socket);
    const { working, waiting } = pipeline;
    if (working.size < MAX_WORKING && waiting.length === 0) return begin(message, response, pipeline);
    waiting.push(() => begin(message, response, pipeline));
    if (waiting.length + working.size > MAX_PIPELINED) return void socket.destroy();
    // Node resumes reading at the end of each request, so the pause comes after the last one of this packet.
    process.nextTick(() => {
      if (waiting.length > 0) socket.pause();
    });
  };
}
