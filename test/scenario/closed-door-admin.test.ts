/** Access to the admin port, besides admin-requests.txt. */

import { expect, it } from "vitest";

import { ask, exchangeRaw, type Reply } from "../support/ask.ts";
import { command } from "../support/command.ts";
import { fileWith } from "../support/files.ts";
import { startFleet } from "../support/fleet.ts";
import { CALLER, startGateway } from "../support/gateway.ts";

const TOKEN = "t0ken-that.nobody_may~ever/see+==";
const AS_OPERATOR = { authorization: `Bearer ${TOKEN}` };

it("the admin token and the private key are in no command's output, no answer and no log line", async () => {
  const keyFile = fileWith(`${CALLER.privateKey}\n`);
  const fleet = await startFleet({
    UPSTREAM_PRIVATE_KEY: "",
    UPSTREAM_PRIVATE_KEY_FILE: keyFile,
    LOG_LEVEL: "trace",
  });
  const { env, sandbox } = fleet;
  const file = fileWith(`${TOKEN}\n`);
  const checked = await command(["config-check"], { ...env, ADMIN_TOKEN: TOKEN });
  expect(checked).toEqual({ code: 0, output: expect.stringContaining("ADMIN_TOKEN = [secret]") });
  const twice = { ADMIN_TOKEN: TOKEN, ADMIN_TOKEN_FILE: file, UPSTREAM_SERVICE: TOKEN };
  const refused = await command(["config-check"], { ...env, ...twice });
  expect(refused.code).toBe(1);
  const gateway = await fleet.start({ ADMIN_TOKEN_FILE: file });
  const replies: Reply[] = [];
  const get = async (url: string): Promise<number> => {
    replies.push(await ask(url, { headers: AS_OPERATOR }));
    return replies.at(-1)?.status ?? 0;
  };
  expect(await get(`${gateway.adminUrl}/budget`)).toBe(200);
  expect(await get(`${gateway.adminUrl}/x`)).toBe(404);
  expect(await get(`${gateway.url}/areas?q=Nacka`)).toBe(200);
  sandbox.setCaller({ privateKey: "turned" });
  expect(await get(`${gateway.url}/areas?q=Lund&key=${CALLER.privateKey}`)).toBe(502);
  await gateway.says(/Check UPSTREAM_PRIVATE_KEY or its file, UPSTREAM_CALLER_ID,? and this machine's clock/);
  expect(await gateway.kill("SIGTERM")).toBe(0);
  const shown = [checked.output, refused.output, gateway.output(), ...replies.map(({ text }) => text)].join();
  for (const secret of [TOKEN, encodeURIComponent(TOKEN), CALLER.privateKey])
    expect(shown).not.toContain(secret);
});

it("a malformed request to the admin port is refused as on the callers' port", async () => {
  const gateway = await startGateway();
  for (const [bytes, status, code] of [
    ["GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed-request"],
    ["nonsense\r\n\r\n", 400, "malformed-request"],
    [`GET /livez HTTP/1.1\r\nHost: x\r\nA: ${"a".repeat(20_000)}\r\n\r\n`, 431, "headers-too-large"],
    [`GET /${"a".repeat(30_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414, "uri-too-long"],
  ] as const) {
    const raw = await exchangeRaw(gateway.adminPort, bytes, { end: true });
    expect(raw).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(raw).toContain(`urn:property-gateway:problem:${code}`);
  }
  expect((await gateway.admin("/livez")).status).toBe(200);
});
