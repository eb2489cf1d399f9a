import http from "node:http";

import type { Reply } from "./ask.ts";

/** POSTs a text, JSON or not. */
export function post(url: string, text: string): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const request = http.request(url, { method: "POST" }, (response) => {
    const chunks: Buffer[] = [];
    response.on("data", (chunk: Buffer) => chunks.push(chunk));
    response.on("end", () => {
      const body = Buffer.concat(chunks);
      const reply = body.toString("utf8");
      const json = (): unknown => JSON.parse(reply);
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body, text: reply, json });
    });
  });
  request.on("error", reject);
  request.end(text);
  return promise;
}
