/** The curl commands of README and docs, run as they stand, with the ports of this test. */
import { readdirSync, readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { runProgram } from "../support/process.ts";

const PAGES = ["README.md", ...readdirSync("docs").map((name) => `docs/${name}`)].filter((path) =>
  path.endsWith(".md"),
);

/** @returns the commands of a page's code blocks, each on one line */
function commandsOf(page: string): string[] {
  const blocks = [...readFileSync(page, "utf8").matchAll(/^```.*\n([^]*?)^```/gm)].map(
    ([, text = ""]) => text,
  );
  return blocks
    .flatMap((text) => text.replaceAll("\\\n", " ").split("\n"))
    .map((line) => line.replace(/^\$ /, ""))
    .filter((line) => line.startsWith("curl "));
}

it("work", async () => {
  const gateway = await startGateway();
  const control = await gateway.sandbox.listenControl();
  const addresses = new Map([
    ["8080", gateway.url],
    ["9090", gateway.adminUrl],
    ["4000", gateway.sandboxUrl],
    ["4001", control.url],
  ]);
  const outcomes: unknown[] = [];
  let count = 0;
  for (const page of PAGES)
    for (const command of commandsOf(page)) {
      count++;
      const here = command.replace(
        /(?:http:\/\/)?(?:localhost|127\.0\.0\.1):(\d+)/g,
        (address, port: string) => addresses.get(port) ?? address,
      );
      const run = runProgram("sh", ["-c", `${here} -sS -o /dev/null -w '%{http_code}'`]);
      const status = (await run.ended, run.output());
      gateway.sandbox.faults.clear();
      if (!/^(200|304)$/.test(status)) outcomes.push([page, command, status]);
    }
  expect(outcomes).toEqual([]);
  expect(count).toBeGreaterThan(5);
});
