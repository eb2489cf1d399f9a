/** Access to the admin port, besides admin-requests.txt. */

import { expect, it } from "vitest";

import { ask, exchangeRaw } from "../support/ask.ts";
import { command } from "../support/command.ts";
import { fileWith } from "../support/files.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { run } from "../support/process.ts";

const TOKEN = "t0ken-that.nobody_may~ever/see+==";
const AS_OPERATOR = { authorization: `Bearer ${TOKEN}` };

it("the admin token is in no command's output, no answer and no log line", async () => {
  const env = { ...gatewayEnv(), LOG_LEVEL: "trace" };
  const file = fileWith(`${TOKEN}\n`);
  const checked = await command(["config-check"], { ...env, ADMIN_TOKEN: TOKEN });
  expect(checked).toEqual({ code: 0, output: expect.stringContaining("ADMIN_TOKEN = [secret]") });
  const refused = await command(["config-check"], {
    ...env,
    ADMIN_TOKEN: TOKEN,
    ADMIN_TOKEN_FILE: file,
    UPSTREAM_SERVICE: TOKEN,
  });
  expect(refused.code).toBe(1);
  const gateway = run(["gateway"], { ...env, ADMIN_TOKEN_FILE: file });
  const [, callers = "", admin = ""] = await gateway.says(/"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/);
  const replies = [
    await ask(`${admin}/budget`, { headers: AS_OPERATOR }),
    await ask(`${admin}/x`, { headers: AS_OPERATOR }),
    await ask(`${callers}/areas?q=${encodeURIComponent(TOKEN)}&key=${TOKEN}`, { headers: AS_OPERATOR }),
  ];
  expect(replies.map(({ status }) => status)).toEqual([200, 404, 502]);
  gateway.child.kill("SIGTERM");
  expect(await gateway.ended).toBe(0);
  for (const shown of [checked.output, refused.output, gateway.output()]) {
    for (const spelling of [TOKEN, encodeURIComponent(TOKEN)]) expect(shown).not.toContain(spelling);
  }
  expect(replies[0]?.text).not.toContain(TOKEN);
});

it("a malformed request to the admin port is refused as on the callers' port", async () => {
  const gateway = await startGateway();
  const port = Number(new URL(gateway.adminUrl).port);
  for (const [bytes, status, code] of [
    ["GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed-request"],
    ["nonsense\r\n\r\n", 400, "malformed-request"],
    [`GET /livez HTTP/1.1\r\nHost: x\r\nA: ${"a".repeat(20_000)}\r\n\r\n`, 431, "headers-too-large"],
    [`GET /${"a".repeat(30_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414, "uri-too-long"],
  ] as const) {
    const raw = await exchangeRaw(port, bytes, { end: true });
    expect(raw).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(raw).toContain(`urn:property-gateway:problem:${code}`);
  }
  expect((await ask(`${gateway.adminUrl}/livez`)).status).toBe(200);
});
