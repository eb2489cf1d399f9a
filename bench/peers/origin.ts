/**
 * The origin behind the gateway and its peers, as a process of its own. It answers like the sandbox, but needs no signature,
 * because the peers cannot sign. It encodes bodies by `Accept-Encoding`, and allows caching of all answers.
 */
import { hash } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import { brotliCompressSync, gzipSync } from "node:zlib";

import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { listBody, singleBody } from "../../src/sandbox/envelope.ts";
import { search } from "../../src/sandbox/search.ts";

const DATA = generateData({ seed: 1, listings: 2_000, sold: 500, service: "propertyservice" });
const SIGNATURE = ["callerId", "time", "unique", "hash"];
const CODINGS = { br: brotliCompressSync, gzip: gzipSync };

/** A record with this id. Every id has a record. */
function recordBody(id: number): string {
  const row = DATA.listings[id % DATA.listings.length];
  if (row === undefined) throw new Error("no listings");
  return singleBody("listings", { ...row, record: { ...row.record, serviceId: id } });
}

function bodyFor(url: URL): string {
  const id = Number(url.pathname.split("/")[2] ?? "");
  if (id > 0) return recordBody(id);
  const parameters = new URLSearchParams(url.search);
  for (const name of [...SIGNATURE, "same"]) parameters.delete(name);
  const resource = url.pathname === "/sold" ? "sold" : "listings";
  return listBody(resource, search(DATA, resource, parameters), "offset");
}

interface Answer {
  readonly head: http.OutgoingHttpHeaders;
  readonly body: Buffer;
}

function answerTo(url: URL, coding: keyof typeof CODINGS | undefined): Answer {
  const body = Buffer.from(bodyFor(url));
  const coded = coding === undefined ? body : CODINGS[coding](body);
  const head = {
    "Content-Type": "application/json",
    "Content-Length": coded.length,
    "Cache-Control": "max-age=86400",
    ETag: `"${hash("sha256", body, "base64url").slice(0, 22)}${coding === undefined ? "" : `-${coding}`}"`,
    Vary: "Accept-Encoding",
    ...(coding !== undefined && { "Content-Encoding": coding }),
  };
  return { head, body: coded };
}

/**
 * Prepared answers. Questions that differ only in the parameter `same` get equal answers. These take almost no CPU time, so
 * that the origin does not disturb measurements of latency.
 */
const same = new Map<string, Answer>();

function sameAnswerTo(url: URL, coding: keyof typeof CODINGS | undefined): Answer {
  const key = `${coding} ${url.pathname} ${url.searchParams.get("limit")}`;
  const answer = same.get(key) ?? answerTo(url, coding);
  same.set(key, answer);
  return answer;
}

const server = http.createServer((request, response) => {
  const url = new URL(request.url ?? "/", "http://origin");
  const accepted = request.headers["accept-encoding"] ?? "";
  const coding = (["br", "gzip"] as const).find((name) => accepted.includes(name));
  const { head, body } = (url.searchParams.has("same") ? sameAnswerTo : answerTo)(url, coding);
  response.writeHead(200, head).end(body);
});
server.keepAliveTimeout = 600_000;
await once(server.listen(0, "127.0.0.1"), "listening");
const address = server.address();
process.on("disconnect", () => process.exit(0));
process.send?.({ port: typeof address === "object" ? address?.port : 0 });
