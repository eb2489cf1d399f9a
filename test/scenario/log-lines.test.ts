import { pathToFileURL } from "node:url";

import { expect, it } from "vitest";

import { fileWith } from "../support/files.ts";
import { startFleet } from "../support/fleet.ts";

/** Writes, at a signal, what careless libraries write. */
const CARELESS = `
process.on("SIGUSR2", () => {
  process.emitWarning("odd");
  process.emitWarning("too old", "DeprecationWarning", "ODD1");
  Buffer("deprecated by Node");
  console.error("plain %s", "text");
  console.log({ an: "object" });
  console.log("two\\nlines");
});`;

it("every line of the process is JSON, whatever Node and libraries have to say", async () => {
  const library = pathToFileURL(fileWith(CARELESS, "careless.mjs")).href;
  const fleet = await startFleet({
    NODE_OPTIONS: `--import=${library} --pending-deprecation --trace-warnings`,
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
    OTEL_EXPORTER_OTLP_HEADERS: "not a header",
    OTEL_BSP_SCHEDULE_DELAY: "10",
    OTEL_LOG_LEVEL: "debug",
  });
  const gateway = await fleet.start();
  await gateway.get("/areas?q=a");
  void gateway.kill("SIGUSR2");
  await gateway.says(/"code":"DEP0005"/);
  expect(await gateway.kill("SIGTERM")).toBe(0);
  const lines = gateway.output().trimEnd().split("\n");
  expect(lines.filter((line) => !/^\{.*\}$/.test(line))).toEqual([]);
  const entries = lines.map((line): Record<string, unknown> => JSON.parse(line));
  expect(entries).toEqual(
    expect.arrayContaining(
      [
        { level: "warn", warning: "Warning", text: "odd" },
        { level: "warn", warning: "DeprecationWarning", code: "ODD1", text: "too old" },
        { level: "warn", warning: "DeprecationWarning", code: "DEP0005" },
        { level: "warn", text: "plain text" },
        { level: "info", text: "{ an: 'object' }" },
      ].map((fields) => expect.objectContaining(fields)),
    ),
  );
});
