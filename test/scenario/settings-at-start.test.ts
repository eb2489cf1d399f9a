import { describe, expect, it, onTestFinished } from "vitest";

import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "../support/ask.ts";
import { command } from "../support/command.ts";
import { fileWith } from "../support/files.ts";
import { CALLER, gatewayEnv } from "../support/gateway.ts";
import { run } from "../support/process.ts";

/** All that a start asks for; nothing is there to be reached. */
const COMPLETE = gatewayEnv();

function linesOf(output: string): string[] {
  return output.split("\n").filter((line) => line !== "");
}

const MISTAKES = `
cache:
  ttl: { listings: 5 minutes }
  staleWhileRevalidate: { listings: never }
sever: { port: 80 }
query: { unknown: forwards }
`;

describe.each(["gateway", "config-check"])("%s", (name) => {
  it("refuses wrong settings with one line for each: where it is, and what is expected", async () => {
    const file = fileWith(MISTAKES, "mine.yaml");
    const { code, output } = await command([name], {
      ...COMPLETE,
      CONFIG_FILE: file,
      BUDGET: "many",
      PORT: "http",
      ADMIN_TOKEN: "with blanks in it",
    });
    expect(code).toBe(1);
    const lines = linesOf(output).filter((line) => line !== "the configuration is not valid:");
    for (const [place, path, expected] of [
      [`${file}:3`, "cache.ttl.listings", /expected .*5m/],
      [`${file}:4`, "cache.staleWhileRevalidate.listings", /expected .*5m/],
      [`${file}:5`, "sever", /did you mean server\?/],
      [`${file}:6`, "query.unknown", /expected .*reject.*forward/],
      ["BUDGET", "budget.limit", /expected .*60\/1m/],
      ["environment variable PORT", "server.port", /expected/],
      ["environment variable", "ADMIN_TOKEN", /expected one line of at least 16 letters/],
    ] as const) {
      const [line = "none", ...others] = lines.filter((text) => text.includes(place) && text.includes(path));
      expect([place, line, others]).toEqual([place, expect.stringMatching(expected), []]);
    }
    expect(lines).toHaveLength(7);
    expect(output).not.toContain(CALLER.privateKey);
  });
});

describe("gateway", () => {
  it("reads the private key from a file and never shows it", async () => {
    const sandbox = createSandbox({ ...CALLER, sizes: { listings: 5, sold: 5 } });
    onTestFinished(sandbox.close);
    const { url: upstream } = await sandbox.listen();
    const { UPSTREAM_PRIVATE_KEY: _key, ...others } = COMPLETE;
    const gateway = run(["gateway"], {
      ...others,
      UPSTREAM_URL: upstream,
      UPSTREAM_PRIVATE_KEY_FILE: fileWith(`${CALLER.privateKey}\n`, "key"),
      LOG_LEVEL: "trace",
    });
    const [, url = ""] = await gateway.says(/"callers":"(http:[^"]+)"/);
    expect((await ask(`${url}/areas?q=Nacka`)).status).toBe(200);
    sandbox.setCaller({ privateKey: "turned" });
    expect((await ask(`${url}/areas?q=Lund&key=${CALLER.privateKey}`)).status).toBe(502);
    await gateway.says(
      /Check UPSTREAM_PRIVATE_KEY or its file, UPSTREAM_CALLER_ID,? and this machine's clock/,
    );
    gateway.child.kill("SIGTERM");
    expect(await gateway.ended).toBe(0);
    expect(gateway.output()).not.toContain(CALLER.privateKey);
  });
});
