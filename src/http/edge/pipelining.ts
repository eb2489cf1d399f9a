/**
 * Handles one request of a connection at a time, so that pipelined requests do not fill the memory. The others wait, and
 * the connection is not read meanwhile. So at most one response waits for the caller to read it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The most requests that wait on one connection. A client that reads its responses does not send so many at once. */
const MAX_WAITING = 100;

type Handle = (message: IncomingMessage, response: ServerResponse) => void;

/** @returns `handle` for requests that arrive on connections, in their order */
export function limitPipelining(handle: Handle): Handle {
  const waiting = new WeakMap<Socket, number>();
  const waitingOn = (socket: Socket): number => waiting.get(socket) ?? 0;

  function pauseWhileRequestsWait(socket: Socket): void {
    // Node resumes reading at the end of each request and of each response, so the pause comes after that.
    process.nextTick(() => {
      if (waitingOn(socket) > 0) socket.pause();
      else socket.resume();
    });
  }

  return (message, response) => {
    const { socket } = message;
    // Node gives a response its socket when the responses before it have ended.
    if (response.socket !== null) return handle(message, response);
    waiting.set(socket, waitingOn(socket) + 1);
    if (waitingOn(socket) >= MAX_WAITING) return void socket.destroy();
    pauseWhileRequestsWait(socket);
    response.once("socket", () => {
      waiting.set(socket, waitingOn(socket) - 1);
      pauseWhileRequestsWait(socket);
      handle(message, response);
    });
  };
}
