import net from "node:net";

import { expect, it, onTestFinished } from "vitest";

import { listening, startFleet } from "../support/fleet.ts";
import { expectToWithstand } from "../support/open-ports.ts";
import { argumentsOf, runProgram } from "../support/process.ts";

it("ports that get random bytes, resets and half-closed connections for three seconds answer with nothing but refusals, and serve others meanwhile", () =>
  expectToWithstand(3_000));

it("a process that may open few files says so, and more connections than that do not keep it from the API or from health checks", async () => {
  const { env } = await startFleet();
  const limited = ["-c", 'ulimit -n 400; exec "$0" "$@"', process.execPath, ...argumentsOf("start")];
  const gateway = await listening(runProgram("sh", limited, env));
  expect(gateway.output()).toContain("may open 400 files only (ulimit -n), so each port takes");
  for (let count = 0; count < 500; count++) {
    const socket = net.connect(Number(new URL(gateway.url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => undefined);
    await new Promise((resolve) => void socket.once("connect", resolve));
    socket.write("G");
  }
  // A connection that is younger than a tenth of a second keeps its place.
  await expect.poll(async () => (await gateway.get("/areas?q=Nacka")).status).toBe(200);
  for (const target of ["/areas?q=Nacka", "/areas?q=Lund", "/listings?limit=1", "/sold?limit=1"])
    expect((await gateway.get(target)).status).toBe(200);
  for (const path of ["/livez", "/readyz"]) expect((await gateway.admin(path)).status).toBe(200);
  const metrics = (await gateway.admin("/metrics")).text;
  expect(metrics).not.toMatch(/^gateway_upstream_requests_total\{.*status="(?!200)/m);
});
