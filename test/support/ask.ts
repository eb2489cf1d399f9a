import http from "node:http";
import net from "node:net";

/** A response, whole; header names are lower case. */
export interface Reply {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  readonly text: string;
  /** The body parsed as JSON. */
  readonly json: () => unknown;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: http.OutgoingHttpHeaders;
  readonly agent?: http.Agent;
  readonly signal?: AbortSignal;
  readonly body?: string;
}

/** One request that sends no header but Host and those given, the target as it is. */
export function ask(
  url: string,
  { method = "GET", headers = {}, agent, signal, body }: AskOptions = {},
): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const [, host = "", port = "80", target = "/"] = /^http:\/\/([^:/]+):(\d+)(.*)$/s.exec(url) ?? [];
  const request = http.request(
    { host, port, path: target || "/", method, headers, ...(agent && { agent }), ...(signal && { signal }) },
    (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const body = Buffer.concat(chunks);
        const text = body.toString("utf8");
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body,
          text,
          json: () => JSON.parse(text) as unknown,
        });
      });
    },
  );
  request.on("error", reject);
  request.end(body);
  return promise;
}

/** POSTs a text, JSON or not. */
export const post = (url: string, body: string): Promise<Reply> => ask(url, { method: "POST", body });

/**
 * Sends bytes as they are and returns all that comes back until the other side closes.
 * @param end whether to say that nothing more follows
 */
export function exchangeRaw(port: number, bytes: string | Buffer, { end = false } = {}): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = net.connect(port, "127.0.0.1");
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  socket.on("error", reject);
  socket.on("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
  if (end) socket.end(bytes);
  else socket.write(bytes);
  return promise;
}
