import { createServer } from "node:http";

import { describe, expect, it, onTestFinished } from "vitest";

import { listen } from "../../src/process/listen.ts";
import { command } from "../support/command.ts";

const SETTINGS = {
  BUDGET: "60/1m",
  UPSTREAM_URL: "http://upstream.example.com",
  UPSTREAM_IMAGE_URL: "http://upstream.example.com",
  UPSTREAM_SERVICE: "propertyservice",
  UPSTREAM_CALLER_ID: "test",
  UPSTREAM_PRIVATE_KEY: "test-key",
  UPSTREAM_USER_AGENT: "test/1.0",
  UPSTREAM_REFERRER: "https://www.example.com/",
};

/** An admin port that says a status to everything. @returns its port, and what it was asked for */
async function adminPort(status: number | undefined): Promise<{ port: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    if (status !== undefined) response.writeHead(status).end();
  });
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = await listen(server, 0, "127.0.0.1");
  return { port: String(port), asked };
}

describe("health-check", () => {
  it("requests /readyz on the configured admin port, and prints nothing if the gateway is ready", async () => {
    const { port, asked } = await adminPort(200);
    // An address to listen on that cannot be connected to.
    const check = await command(["health-check"], { ...SETTINGS, ADMIN_HOST: "0.0.0.0", ADMIN_PORT: port });
    expect([check.code, check.output, asked]).toEqual([0, "", ["/readyz"]]);
  });

  it("fails if the gateway is not ready", async () => {
    const { port } = await adminPort(503);
    const check = await command(["health-check"], { ...SETTINGS, ADMIN_PORT: port });
    expect([check.code, check.output]).toEqual([1, `http://127.0.0.1:${port}/readyz: status 503\n`]);
  });

  it("fails without an answer, before a container's own timeout", async () => {
    const { port } = await adminPort(undefined);
    const check = await command(["health-check"], { ...SETTINGS, ADMIN_PORT: port });
    expect([check.code, check.output]).toEqual([
      1,
      `http://127.0.0.1:${port}/readyz: no answer within 3000 ms\n`,
    ]);
  });

  it.each([
    ["::", "[::1]"],
    ["::1", "[::1]"],
    ["0.0.0.0", "127.0.0.1"],
  ])("for a gateway on %s connects to %s", async (ADMIN_HOST, asked) => {
    // Nothing listens there.
    const check = await command(["health-check"], { ...SETTINGS, ADMIN_HOST, ADMIN_PORT: "1" });
    expect(check.code).toBe(1);
    expect(check.output).toContain(`http://${asked}:1/readyz: `);
  });

  it("connects to the given address without any settings", async () => {
    const { port, asked } = await adminPort(204);
    const check = await command(["health-check", `http://127.0.0.1:${port}/anything`]);
    expect([check.code, asked]).toEqual([0, ["/anything"]]);
  });
});
