/** Requests to the admin port, and what comes of them: admin-requests.txt. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import manifest from "../../package.json" with { type: "json" };
import { StoreUnavailable } from "../../src/errors.ts";
import { startAdminPort } from "../support/admin-port.ts";
import { exchangeRaw, post, problemCode, type Reply, replyOf } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { sectionsOf } from "../support/table.ts";
import { eachOf } from "./play.ts";

const TABLE = new URL("admin-requests.txt", import.meta.url);
const TOKEN = "t0ken-that.nobody_may~ever/see+==";
const LISTS = new Map(
  [...readFileSync(TABLE, "utf8").matchAll(/^list ([A-Z]+) (.*)$/gm)].map(([, name = "", paths = ""]) => [
    name,
    paths.split(" "),
  ]),
);

const ALL = ["READ", "CHANGES"].flatMap((name) => LISTS.get(name) ?? []);

/** @returns the request once with each path of a list, and with each alternative */
function requestsOf(written: string): string[] {
  const [, brace = "", name = ""] = /^[A-Z]+ (\{?)([A-Z]+)\b/.exec(written) ?? [];
  const paths = LISTS.get(name)?.join("|") ?? "";
  return eachOf(
    paths === "" ? written : written.replace(` ${brace}${name}`, brace === "" ? ` {${paths}}` : ` {${paths}`),
  );
}

const HEADER = /\[([\w-]+): ?(.*?)\](?= |$)/g;

/** Sends `POST /cache/purge [name: value] body`, byte for byte. */
async function send(port: number, written: string): Promise<Reply> {
  const [, method = "", target = "", rest = ""] = /^([A-Z]+) (\S+) ?(.*)$/.exec(written) ?? [];
  const body = rest.replaceAll(HEADER, "").trim();
  const inFull = rest
    .replaceAll("SECRET", TOKEN)
    .replaceAll("PART", TOKEN.slice(0, -1))
    .replaceAll(/base64\((.*?)\)/g, (_, text: string) => Buffer.from(text).toString("base64"));
  const headers = [...inFull.matchAll(HEADER)].map(([, name, value]) => `${name}: ${value}`);
  if (!/\[host:/.test(rest)) headers.push("Host: localhost");
  const head = [`${method} ${target} HTTP/1.1`, ...headers, "Connection: close"];
  const raw = await exchangeRaw(port, [...head, `Content-Length: ${body.length}`, "", body].join("\r\n"));
  const [top = "", ...texts] = raw.split("\r\n\r\n");
  const text = texts.join("\r\n\r\n");
  const got = [...top.matchAll(/^([\w-]+): (.*)\r?$/gm)].map(([, name = "", value = ""]) => [
    name.toLowerCase(),
    value,
  ]);
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(top)?.[1]);
  return replyOf(status, Object.fromEntries(got), Buffer.from(text));
}

/** @returns `404 unknown-path readable`, as much of it as a line says */
function kindOf(reply: Reply, method: string): string {
  const { status, headers, text } = reply;
  expect(headers["access-control-allow-origin"]).toBeUndefined();
  if (method === "HEAD") return String(status);
  const isReadable = /json/.test(headers["content-type"] ?? "") && text.includes("\n");
  if (isReadable && status >= 400) {
    const [code = ""] = /[a-z-]+$/.exec(String(Object(reply.json()).type)) ?? [];
    return `${status} ${code} readable`;
  }
  const what = status >= 400 ? problemCode(reply) : headers["content-type"]?.split(";")[0];
  return `${status} ${what}${isReadable ? " readable" : ""}`;
}

describe.each(sectionsOf(TABLE))("$title", ({ title, rows }) => {
  it("plays", async () => {
    const gateway = await startGateway({ env: title.startsWith("A token") ? { ADMIN_TOKEN: TOKEN } : {} });
    await gateway.get("/areas?q=Nacka");
    for (const [written, wanted] of rows) {
      const [kind = "", detail = ""] = wanted.split(" | ");
      for (const given of requestsOf(written)) {
        const reply = await send(gateway.adminPort, given);
        const expected = kind.replaceAll(HEADER, "").trim();
        const found = kindOf(reply, given.split(" ")[0] ?? "");
        expect([given, /^\d+$/.test(expected) ? String(reply.status) : found]).toEqual([given, expected]);
        for (const [, name = "", value] of kind.matchAll(HEADER))
          expect([given, reply.headers[name]]).toEqual([given, value]);
        if (detail !== "")
          expect([given, Object(reply.json()).detail]).toEqual([given, expect.stringContaining(detail)]);
        if (reply.status === 404) {
          const { remedy } = Object(reply.json());
          const known = [...remedy.matchAll(/\/[a-z/]*/g)]
            .map(([path]) => path)
            .filter((path) => path !== "/");
          expect([given, new Set(known)]).toEqual([given, new Set(ALL)]);
        }
      }
    }
    expect((await gateway.get("/areas?q=Nacka")).headers["cache-status"]).toContain("; hit");
    expect(gateway.sandbox.requests()).toHaveLength(1);
    const log = gateway.log.join("");
    expect(log).not.toMatch(/Reload done|t0ken-that/);
    expect(log.split("wrong token").length - 1).toBe(title.includes("that is wrong") ? 1 : 0);
  });
});

it("/version is the version of the gateway and of Node; a mistake with a long value gets at most a part of it back", async () => {
  const { admin, shows } = await startGateway();
  expect(await shows("/version")).toEqual({ version: manifest.version, node: process.version });
  const reply = await admin(`/usage?${"x".repeat(5_000)}=1`);
  expect(problemCode(reply)).toBe("invalid-admin-request");
  expect(reply.text.length).toBeLessThan(600);
});

it("a purge that reaches only a part of its entries says so", async () => {
  let done = 0;
  const url = await startAdminPort({
    pages: { sourceOf: async (asked) => asked, blockKeysOf: () => ["block 1", "block 2"] },
    async purge() {
      if (++done > 2) throw new StoreUnavailable("no connection");
      return { epoch: done };
    },
  });
  const reply = await post(`${url}/cache/purge`, JSON.stringify({ url: "/areas" }));
  expect([reply.status, problemCode(reply)]).toEqual([503, "store-unavailable"]);
  expect(reply.json()).toMatchObject({ remedy: expect.stringMatching(/^Send the request.*applied in part/) });
});
