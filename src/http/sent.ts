import type { ServerResponse } from "node:http";

/**
 * Whether a whole response has been handed to the kernel. Nothing more can happen to it, so nobody needs to wait for its
 * events.
 */
export function isSent(response: ServerResponse): boolean {
  const { socket } = response;
  // A pipelined response gets its socket only when the responses before it have ended.
  return response.writableEnded && response.writableLength === 0 && socket !== null && !socket.destroyed;
}
