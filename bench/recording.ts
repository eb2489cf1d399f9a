/** The cost of recording a cache hit: its line in the access log, and its metrics. */
import { closeSync, openSync, writeSync } from "node:fs";

import type { RequestRecord } from "../src/types.ts";
import { createLines, createRequestLine } from "../src/telemetry/access-line.ts";
import { createRedact } from "../src/telemetry/log.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { build } from "../src/telemetry/process-metrics.ts";
import { micros, printTable } from "./table.ts";

const APPS = ["web", "search", "mobile", "nightly"];
const HITS_AT_ONCE = 100;

/** Measures only the recording. The lines are written to /dev/null, in portions of the same size as in the gateway. */
export function benchRecording(forMs: number): void {
  const file = openSync("/dev/null", "w");
  const redact = createRedact(["a-private-key-of-the-api", "an-admin-token"]);
  // Lines need no timer here, because a portion is full before a line has waited too long.
  const lines = createLines(
    (text) => writeSync(file, redact(text)),
    () => () => undefined,
  );
  const lineOf = createRequestLine(Date.now);
  const metrics = createMetrics(build);
  const line = costOf(forMs, (record) => lines.writeSoon(lineOf(record, { client: "10.0.0.17" })));
  const count = costOf(forMs, (record) => metrics.request(record, record.app));
  lines.flush();
  closeSync(file);
  printTable(
    "Recording a cache hit",
    ["part", "CPU"],
    [
      ["its line in the access log", micros(line)],
      ["its part in the metrics", micros(count)],
    ],
  );
}

/** @returns the CPU time per hit, in milliseconds. The first half of the time is the warm-up. */
function costOf(forMs: number, record: (hit: RequestRecord) => void): number {
  run(forMs / 2, record);
  return run(forMs / 2, record);
}

function run(forMs: number, record: (hit: RequestRecord) => void): number {
  const hits = APPS.map(hitOf);
  const cpu = process.cpuUsage();
  let count = 0;
  for (const endsAt = performance.now() + forMs; performance.now() < endsAt;)
    for (let nth = 0; nth < HITS_AT_ONCE; nth++) {
      const hit = hits[count++ % hits.length];
      if (hit !== undefined) record(hit);
    }
  const { user, system } = process.cpuUsage(cpu);
  return (user + system) / 1_000 / count;
}

function hitOf(app: string): RequestRecord {
  return {
    app,
    id: "1b4f8c2e-7a3d-4e0b-9d56-0c8a1f2e3b47",
    method: "GET",
    resource: "listings",
    query: "areaId=76&limit=50&offset=100",
    status: 200,
    outcome: "hit",
    tier: "memory",
    problem: undefined,
    durationMs: 0.0623,
    bytes: 15_321,
    receivedAt: 0,
    ageMs: 4_711,
  };
}
