/** Node's inspector. Anyone who can connect to it can run code in the process and read its secrets. */
import { expect } from "vitest";

import { ask } from "./ask.ts";
import { freePorts } from "./ports.ts";
import type { Running } from "./process.ts";

/** Settings with which a process that opens its inspector opens it at a free port. */
export async function inspectorSettings(): Promise<{ port: number; env: Record<string, string> }> {
  const [port = 0] = await freePorts(1);
  return { port, env: { NODE_OPTIONS: `--inspect-port=127.0.0.1:${port}` } };
}

/** Sends SIGUSR1 to a gateway, and checks that it still serves and has no inspector. */
export async function expectNoInspector(
  gateway: Pick<Running, "output"> & { readonly signal: (signal: NodeJS.Signals) => void },
  url: string,
  port: number,
): Promise<void> {
  // Node opens it within a few milliseconds: long before so many rounds have passed.
  for (let round = 0; round < 200; round++) {
    if (round % 50 === 0) gateway.signal("SIGUSR1");
    expect((await ask(`${url}/nowhere`)).status).toBe(404);
  }
  await expect(ask(`http://127.0.0.1:${port}/json`)).rejects.toThrow("ECONNREFUSED");
  expect(gateway.output()).not.toMatch(/debugger|inspector/i);
}
