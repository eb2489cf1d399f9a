/** Plays every row of the tables in docs/migration.md about requests. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { CALLER, LISTING_ID, startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

const page = readFileSync("docs/migration.md", "utf8");

/** A text with its placeholders replaced by values of the test. */
function filledIn(text: string): string {
  return text.replaceAll("@ID", LISTING_ID).replaceAll("@KEY", CALLER.privateKey);
}

describe("an unusual request", () => {
  // A code block: what is sent, two spaces or more, and what it is.
  const rows = [...page.matchAll(/^(\/\S*) {2,}(\S.*)$/gm)].map(([, sent = "", becomes = ""]) => [
    sent,
    becomes,
  ]);

  it("has many rows", () => expect(rows.length).toBeGreaterThan(35));

  it.each(rows)("%s is %s", async (sent = "", becomes = "") => {
    const gateway = await startGateway();
    const reply = await gateway.get(filledIn(sent));
    if (becomes.startsWith("400 ")) {
      expect(problemCode(reply)).toBe("invalid-query");
      const [, ...parameters] = becomes.split(" ");
      const named = parameters.map((parameter) => expect.objectContaining({ parameter }));
      expect(reply.json()).toMatchObject({ status: 400, errors: named });
      expect(gateway.sandbox.requests()).toEqual([]);
      return;
    }
    expect([reply.status, cacheStatus(reply)["key"]]).toEqual([200, filledIn(becomes)]);
  });
});
