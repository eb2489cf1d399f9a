import { Socket } from "node:net";

import { diag } from "@opentelemetry/api";
import { expect, it, onTestFinished } from "vitest";

import { loadTracing } from "../../../src/telemetry/tracing.ts";
import { SILENT } from "../../support/silent-observer.ts";

it("ends a part of a request once, however often its end is reported", async () => {
  const complaints: string[] = [];
  const complain = (message: string): void => void complaints.push(message);
  const ignore = (): void => undefined;
  diag.setLogger({ error: complain, warn: complain, info: ignore, debug: ignore, verbose: ignore });
  onTestFinished(() => diag.disable());
  const createTracing = await loadTracing("http/json");
  const tracing = createTracing({ observer: SILENT, redact: (text) => text });
  const wait = tracing.start({ headers: {}, socket: new Socket() }).begin("queue wait");
  wait.end();
  wait.end({ error: "late" });
  expect(complaints).toEqual([]);
});
