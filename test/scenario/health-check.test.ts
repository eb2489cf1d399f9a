import { createServer } from "node:http";

import { describe, expect, it } from "vitest";

import { command } from "../support/command.ts";
import { gatewayEnv } from "../support/gateway.ts";
import { serve } from "../support/serve.ts";

const SETTINGS = { ...gatewayEnv("http://upstream.example.com"), BUDGET: "60/1m" };

/** An admin port that says a status to everything. @returns its port, and what it was asked for */
async function adminPort(status: number | undefined): Promise<{ port: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    if (status !== undefined) response.writeHead(status).end();
  });
  return { port: String(await serve(server)), asked };
}

describe("health-check", () => {
  it.each([
    [200, 0, () => ""],
    [503, 1, (url: string) => `${url}: status 503\n`],
    // Before a container's own timeout.
    [undefined, 1, (url: string) => `${url}: no answer within 3000 ms\n`],
  ])("asks /readyz of the configured admin port: status %s is exit code %i", async (status, code, output) => {
    const { port, asked } = await adminPort(status);
    // The host is one to listen on, not to connect to. The settings file is missing, which does not end a running gateway.
    const env = { ...SETTINGS, ADMIN_HOST: "0.0.0.0", ADMIN_PORT: port, CONFIG_FILE: "/nowhere" };
    const check = await command(["health-check"], env);
    expect(check).toEqual({ code, output: output(`http://127.0.0.1:${port}/readyz`) });
    expect(asked).toEqual(["/readyz"]);
  });

  it.each(["::", "::1"])("for a gateway on %s connects to [::1]", async (ADMIN_HOST) => {
    // Nothing listens there.
    const check = await command(["health-check"], { ...SETTINGS, ADMIN_HOST, ADMIN_PORT: "1" });
    expect(check.code).toBe(1);
    expect(check.output).toContain("http://[::1]:1/readyz: ");
  });

  it("asks /readyz of an address without a path, and fails if the answer breaks off", async () => {
    const server = createServer((_, response) => {
      response.writeHead(200, { "content-length": 9 }).write("half", () => response.destroy());
    });
    const url = `http://127.0.0.1:${await serve(server)}`;
    expect(await command(["health-check", url])).toEqual({ code: 1, output: `${url}/readyz: aborted\n` });
  });

  it("connects to the given address without any settings", async () => {
    const { port, asked } = await adminPort(204);
    const check = await command(["health-check", `http://127.0.0.1:${port}/anything`]);
    expect([check.code, asked]).toEqual([0, ["/anything"]]);
  });
});
