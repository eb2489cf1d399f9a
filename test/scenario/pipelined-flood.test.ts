import { readFileSync } from "node:fs";
import net from "node:net";
import { setTimeout as pause } from "node:timers/promises";

import { expect, it } from "vitest";

import { listening, startFleet } from "../support/fleet.ts";
import { runScript } from "../support/process.ts";
import { startUpstream } from "../support/upstream.ts";

const MIB = 1024 * 1024;
const [CONNECTIONS, PIPELINED] = [60, 100];
/** With its headers, a request has 7 kB, and its answer has 500 records. */
const PAD = `X-Pad: ${"x".repeat(6_800)}`;
const RECORDS = Array.from({ length: 500 }, (_, at) => ({
  serviceId: at + 1,
  streetAddress: "x".repeat(600),
}));
const ANSWER = JSON.stringify({ totalCount: 500, count: 500, listings: RECORDS, limit: 500, offset: 0 });
/** The largest difference, in bytes. Without bounds, the gateway took more than 600 MiB. */
const MOST_ABOVE_IDLE = 256 * MIB;

function memoryOf(pid: number | undefined, field: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
}

/** Asks for pages that nobody else asks for, and reads nothing. @returns the connections */
function flood(port: number, round: number): net.Socket[] {
  return Array.from({ length: CONNECTIONS }, (_, connection) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.pause();
    for (let at = 0; at < PIPELINED; at++) {
      const price = (round * CONNECTIONS + connection) * PIPELINED + at;
      const target = `/listings?limit=500&minListPrice=${price}`;
      socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n${PAD}\r\n\r\n`);
    }
    return socket;
  });
}

it("60 connections with 100 unread answers each fill neither the memory nor lock others out", async () => {
  const upstream = await startUpstream((response) => response.end(ANSWER));
  const settings = "cache: { maxBytes: 16MiB }";
  const { env } = await startFleet({ BUDGET: "1000000/1m", ...upstream.env }, { settings });
  const gateway = await listening(runScript("start", env));
  const { pid } = gateway.child;
  const idle = memoryOf(pid, "VmRSS");
  for (const round of [0, 1]) {
    const before = upstream.seen.length;
    const sockets = flood(Number(new URL(gateway.url).port), round);
    let calls = before;
    // Until the kernel takes no more answers, so that nothing is worked on any more.
    do {
      calls = upstream.seen.length;
      await pause(500);
      expect((await gateway.admin("/livez")).status).toBe(200);
    } while (upstream.seen.length > calls || calls < before + CONNECTIONS);
    expect(calls - before).toBeLessThan(CONNECTIONS * PIPELINED);
    for (const socket of sockets) socket.destroy();
    expect((await gateway.get(`/listings?limit=500&minRooms=${round}`)).status).toBe(200);
    // In the second round, the memory of the first one is used again.
    expect((memoryOf(pid, "VmHWM") - idle) / MIB).toBeLessThan(MOST_ABOVE_IDLE / MIB);
  }
}, 120_000);
