import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createLogger, type Logger } from "../../../src/telemetry/log.ts";

const KEY = "K3y-that-nobody-may-see";
const HASH = "0123456789abcdef0123456789abcdef01234567";

/** What is written when a logger with these secrets is used. */
function written(use: (log: Logger) => void, secrets: readonly string[] = [KEY], level = "trace"): string[] {
  const lines: string[] = [];
  use(createLogger({ level, secrets, destination: { write: (line) => void lines.push(line) } }));
  return lines;
}

const parsed = (lines: readonly string[]): unknown[] => lines.map((line) => JSON.parse(line) as unknown);

describe("a secret", () => {
  it.each<[string, (log: Logger) => void]>([
    ["a line of the access log", (log) => log.line({ query: `listings?apikey=${KEY}` })],
    ["a field's name", (log) => log.info({ [`header ${KEY}`]: 1 }, "request")],
    ["an error's cause", (log) => log.error({ err: new Error("bad", { cause: new Error(KEY) }) }, "failed")],
    ["a child's bindings", (log) => log.child({ key: KEY }).info("request")],
    ["text glued to others", (log) => log.info(`x${KEY}y${KEY}${KEY}`)],
  ])("is not written if it is in %s", (_name, use) => {
    const lines = written(use);
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toContain(KEY);
    expect(lines[0]).toContain("[redacted]");
    parsed(lines);
  });

  it("is not written, for any secret at any place, also as a URL or a form spells it", () => {
    const secrets = fc.string({ unit: "grapheme", minLength: 12, maxLength: 30 });
    fc.assert(
      fc.property(secrets, fc.string(), fc.string(), (secret, before, after) => {
        const form = new URLSearchParams([["", secret]]).toString();
        const spellings = [secret, encodeURIComponent(secret), form];
        const use = (log: Logger): void => {
          log.info({ text: before + secret + after, deep: [{ spellings }] }, secret);
          log.error({ err: Object.assign(new Error(before + secret), { secret }) }, "failed");
        };
        const lines = written(use, [secret]);
        for (const line of lines)
          for (const spelling of spellings)
            expect(JSON.stringify(JSON.parse(line))).not.toContain(JSON.stringify(spelling).slice(1, -1));
      }),
    );
  });
});

describe("a signature", () => {
  it.each([
    `/listings?areaId=1&callerId=acme&time=1&unique=abcdefghijklmnop&hash=${HASH}`,
    `/listings?hash=${HASH}&unique=abcdefghijklmnop&areaId=1`,
    `areas?q=x%26hash%3D${HASH}%26unique%3Dabcdefghijklmnop`,
    `areas?q=x%26hash%3d${HASH}%26unique%3dabcdefghijklmnop`,
    `HASH=${HASH.toUpperCase()} UNIQUE=abcdefghijklmnop`,
    `_hash=${HASH}`,
  ])("is not written: %s", (text) => {
    const [line = ""] = written((log) => log.warn({ text }, text));
    expect(line).not.toMatch(/hash(=|%3d)|unique(=|%3d)/i);
    expect(line.toLowerCase()).not.toContain(HASH);
    expect(line).not.toContain("abcdefghijklmnop");
    expect(JSON.parse(line)).toBeDefined();
  });

  it("does not hide the rest of the line", () => {
    const lines = written((log) => log.info({ text: `areas?q=x%26hash%3D${HASH}&limit=5` }, "request"));
    expect(parsed(lines)).toMatchObject([{ text: "areas?q=x%26hash:[redacted]&limit=5" }]);
  });
});
