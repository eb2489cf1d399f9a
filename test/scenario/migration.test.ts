/** Plays every row of the tables in docs/migration.md about requests. */
import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { CALLER, LISTING_ID, startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/ask.ts";

const page = readFileSync("docs/migration.md", "utf8");

/** A text with its placeholders replaced by values of the test. */
function filledIn(text: string): string {
  return text.replaceAll("@ID", LISTING_ID).replaceAll("@KEY", CALLER.privateKey);
}

// A code block: what is sent, two spaces or more, and what it is.
const rows = [...page.matchAll(/^(\/\S*) {2,}(\S.*)$/gm)].map(([, ...texts]) => texts);

it("an unusual request is what the page says", async () => {
  expect(rows.length).toBeGreaterThan(35);
  const gateway = await startGateway();
  for (const [sent = "", becomes = ""] of rows) {
    gateway.sandbox.clearRequests();
    const reply = await gateway.get(filledIn(sent));
    const wanted = becomes.startsWith("400 ") ? [400, undefined] : [200, filledIn(becomes)];
    expect([sent, reply.status, cacheStatus(reply)["key"]]).toEqual([sent, ...wanted]);
    if (reply.status === 200) continue;
    const [, ...parameters] = becomes.split(" ");
    const named = parameters.map((parameter) => expect.objectContaining({ parameter }));
    expect([sent, problemCode(reply)]).toEqual([sent, "invalid-query"]);
    expect([sent, reply.json()]).toMatchObject([sent, { status: 400, errors: named }]);
    expect([sent, gateway.sandbox.requests()]).toEqual([sent, []]);
  }
});
