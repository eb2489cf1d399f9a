/** The command line against a running gateway. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { describe, expect, it, onTestFinished } from "vitest";

import { createProgress } from "../../src/cli/print.ts";
import { listen } from "../../src/process/listen.ts";
import { createAuthority } from "../support/certificates.ts";
import { command } from "../support/command.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { run } from "../support/process.ts";

const TOKEN = "token-of-this-test-only-0123456789abcdef";
const NAMES = [
  "start",
  "demo",
  "sandbox",
  "check-config",
  "health",
  "status",
  "explain",
  "usage",
  "budget",
  "purge",
  "warm",
  "report",
];

function fileWith(name: string, text: string): string {
  const directory = mkdtempSync(join(tmpdir(), "command-line-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  writeFileSync(join(directory, name), text);
  return join(directory, name);
}

describe("the command line", () => {
  it("ends quietly when its reader has read enough, as with `| head`", async () => {
    const running = run(["check-config"], gatewayEnv());
    running.child.stdout?.destroy();
    expect([await running.ended, running.output()]).toEqual([0, ""]);
  });

  it("shows every command in its help; each command has its own help and the version", async () => {
    const { code, output } = await command(["--help"]);
    expect(code).toBe(0);
    for (const name of NAMES) expect(output).toMatch(new RegExp(`^  ${name}\\b`, "m"));
    const { version }: { version: string } = JSON.parse(readFileSync("package.json", "utf8"));
    for (const name of ["health", "report"]) {
      const help = await command([name, "--help"]);
      expect([help.code, help.output]).toEqual([0, expect.stringContaining(`property-gateway ${name}`)]);
      expect(await command([name, "--version"])).toEqual({ code: 0, output: `${version}\n` });
    }
  });

  it.each([
    [["strat"], "Did you mean start?"],
    [["usage", "--form", "-7d"], "Did you mean --from?"],
    [["usage", "--by", "month"], "Allowed choices are app, resource, hour"],
    [["start", "--port", "http"], "Expected a port from 0 to 65535"],
    [["sandbox", "--listings", "many"], "Expected an integer from 0 to 1000000"],
    [["health", "a", "b"], "too many arguments"],
    [["explain"], "missing required argument"],
    [["purge", "/areas", "--all"], "Give one of"],
    [["budget", "--admin-url", "localhost"], "--admin-url must be an address"],
  ])("refuses %j with exit code 2 and a hint", async (args, said) => {
    const { code, output } = await command(args);
    expect([code, output]).toEqual([2, expect.stringContaining(said)]);
  });

  it("runs by its name through npx", async () => {
    const { stdout } = await promisify(execFile)("npx", ["--no-install", "property-gateway", "--version"]);
    const { version }: { version: string } = JSON.parse(readFileSync("package.json", "utf8"));
    expect(stdout.trim()).toBe(version);
  });

  it("draws a progress bar on a terminal only", () => {
    const drawnOn = (isTTY: boolean): string => {
      let drawn = "";
      const progress = createProgress({ isTTY, write: (text) => (drawn += text) }, 3);
      progress.show(1);
      progress.end();
      return drawn;
    };
    expect(drawnOn(true)).toBe(`\r[${"#".repeat(10)}${".".repeat(20)}] 1/3\n`);
    expect(drawnOn(false)).toBe("");
  });

  it("accepts settings as options, which override the environment", async () => {
    const file = fileWith("mine.yaml", "sever: { port: 80 }");
    const { code, output } = await command(["check-config", "--config", file], {
      CONFIG_FILE: "/no/such/file",
    });
    expect([code, output]).toEqual([1, expect.stringContaining(`${file}:1`)]);
    expect(output).not.toContain("/no/such/file");
  });
});

describe("commands that ask the admin port", () => {
  it("explain shows the canonical query, that nothing is cached, and later the age of the answer", async () => {
    const gateway = await startGateway();
    const ask = (): ReturnType<typeof command> =>
      command(["explain", "http://gateway.example/areas?limit=3&q= Nacka ", "--admin-url", gateway.adminUrl]);
    const before = await ask();
    expect(before.output).toMatch(/query +areas\?q=Nacka&limit=3/);
    expect(before.output).toMatch(/cached +no \(not stored\)/);
    expect(before.output).toMatch(/costs +1 upstream call, no wait, for the app other/);
    await gateway.get("/areas?q=Nacka&limit=3");
    const after = await ask();
    expect(after.output).toMatch(/cached +in memory: status 200, \d+ bytes, \d+ m?s old, fresh for/);
    expect(after.output).toMatch(/costs +0 upstream calls/);
    expect(before.output).toContain("remembers no request for this URL that was not a hit");
    expect(after.output).toMatch(/Z +other +miss +Nothing usable was cached\./);
  });

  it("usage, budget and report count the calls, as tables and as JSON", async () => {
    const gateway = await startGateway({ env: { BUDGET: "60/1m" } });
    await gateway.get("/areas?q=Nacka");
    await gateway.get("/sold?limit=1");
    await gateway.get("/areas?q=Nacka", { headers: { "user-agent": "crawler/2.1 (+https://example.com)" } });
    const at = ["--admin-url", gateway.adminUrl];
    const usage = await command(["usage", ...at, "--by", "resource"]);
    expect(usage.output).toMatch(/^sold +1 +1 +0/m);
    expect(usage.output).toMatch(/^total +2 +2 +0/m);
    expect(usage.output).toMatch(/^1m +60 +2 .* yes$/m);
    const budget = await command(["budget", ...at]);
    expect(budget.output).toMatch(/^1m +60 +2 +58 +1 in \d+ s +other 2$/m);
    expect(budget.output).toContain("A call can be made now.");
    expect(JSON.parse((await command(["budget", ...at, "--json"])).output)).toMatchObject({
      mode: "enforce",
    });
    const status = await command(["status", ...at]);
    expect(status.output).toMatch(/^Counts of one process \(1\) since .*Z\. Budget mode: enforce\.$/m);
    expect(status.output).toMatch(/^1m +60 +58 +1 in \d+ s +-$/m);
    expect(status.output).toMatch(/^areas: answers; 1 calls, 0 failed/m);
    expect(status.output).toMatch(/^1 of 3 requests \(33 %\) needed no call: hit 1$/m);
    expect(status.output).toMatch(/^other +no +1 +2 +0 +0 +2$/m);
    const report = await command(["report", ...at, "--from", "-1h", "--json"]);
    expect(JSON.parse(report.output)).toMatchObject({
      totals: { sends: 2 },
      windows: [{ name: "1m", limit: 60, maximum: 2 }, {}],
      byApp: [{ app: "other", sends: 2 }],
      byResource: [{ resource: "areas" }, { resource: "sold" }],
      cacheAges: { answers: 1, groups: [{ upToSeconds: 60, answers: 1 }, {}, {}, {}, {}, {}, {}, {}] },
      identification: {
        apps: [
          { app: "other", isListed: false, identifiedBy: "nothing", userAgent: null },
          { app: "crawler", identifiedBy: "user-agent", userAgent: "crawler/2.1 (+https://example.com)" },
        ],
      },
    });
    expect((await command(["report", ...at])).output).toMatch(/up to 1 min +1 +100\.0 %/);
  });

  it("purge makes an answer stale, and warm --wait waits until the listed answers are cached", async () => {
    const gateway = await startGateway({ settings: 'warm: [{ url: "/areas?q=Nacka", every: 1h }]' });
    const at = ["--admin-url", gateway.adminUrl];
    const warm = await command(["warm", "--wait", "--timeout", "20", ...at]);
    expect([warm.code, warm.output]).toEqual([0, expect.stringMatching(/^areas\?q=Nacka .* refreshed$/m)]);
    const purge = await command(["purge", "/areas?q=Nacka", "--hard", ...at]);
    expect([purge.code, purge.output]).toEqual([
      0,
      expect.stringMatching(/^Purged the key \S+areas\?q=Nacka\}\. .*never served again/m),
    ]);
    const explained = await command(["explain", "/areas?q=Nacka", "--json", ...at]);
    expect(JSON.parse(explained.output)).toMatchObject({ entry: { query: "areas?q=Nacka" } });
    expect(explained.output).not.toContain('"why": "fresh"');
  });

  it("send the token from a file or the environment, and report a missing token", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const at = ["--admin-url", gateway.adminUrl];
    const without = await command(["budget", ...at]);
    expect([without.code, without.output]).toEqual([1, expect.stringMatching(/^401 .*\n.*ADMIN_TOKEN/)]);
    const file = fileWith("token", `${TOKEN}\n`);
    expect((await command(["budget", ...at, "--token-file", file])).code).toBe(0);
    expect((await command(["budget", ...at], { ADMIN_TOKEN: TOKEN })).code).toBe(0);
  });

  it("usage and report show which calls are missing, and that it is unknown whether the limit was kept", async () => {
    const period = { from: "2026-11-21T00:00:00.000Z", to: "2026-11-22T00:00:00.000Z" };
    const counts = { sends: 3, "2xx": 3, "3xx": 0, "4xx": 0, "5xx": 0, failed: 0, uncompleted: 0 };
    const unrecorded = { since: "2026-11-21T03:00:00.000Z", until: "2026-11-21T03:05:00.000Z" };
    const windows = [{ name: "1m", limit: 60, maximum: 3, reachedAt: period.from, kept: "unknown" }];
    const usage = { ...period, by: "app", unrecorded, totals: counts, rows: [], windows };
    const known = { scope: "alone", processes: 1, since: period.from, completeSince: period.from };
    const callers = { ...known, ages: { answers: 0, oldestSeconds: 0, groups: [] }, apps: [] };
    const server = createServer((request, response) => {
      response.end(JSON.stringify(request.url?.startsWith("/callers") ? callers : usage));
    });
    onTestFinished(() => void server.close());
    const { url } = await listen(server, 0, "127.0.0.1");
    for (const name of ["usage", "report"]) {
      const { output } = await command([name, "--admin-url", url]);
      expect(output).toContain(`Calls from ${unrecorded.since} to ${unrecorded.until} are missing`);
      expect(output).toMatch(/^1m +60 +3 .* unknown$/m);
    }
    const json = await command(["report", "--admin-url", url, "--json"]);
    expect(JSON.parse(json.output)).toMatchObject({ unrecorded });
  });

  it("use TLS if the settings have a certificate for the admin port, and trust no other one", async () => {
    const authority = createAuthority();
    const pairOf = (hosts: readonly string[]): Record<string, string> => {
      const { cert, key } = authority.issue({ hosts });
      return {
        ADMIN_TLS_CERT_FILE: fileWith("cert.pem", cert),
        ADMIN_TLS_KEY_FILE: fileWith("key.pem", key),
      };
    };
    const pair = pairOf(["gateway.example.com"]);
    const gateway = await startGateway({ env: pair });
    const settings = { ...gatewayEnv(), ADMIN_PORT: new URL(gateway.adminUrl).port };
    expect(await command(["health"], { ...settings, ...pair })).toEqual({ code: 0, output: "" });
    expect(await command(["budget"], { ...settings, ...pair })).toMatchObject({ code: 0 });
    const another = pairOf(["127.0.0.1"]);
    expect(await command(["health"], { ...settings, ...another })).toMatchObject({ code: 1 });
    expect(await command(["budget"], { ...settings, ...another })).toMatchObject({ code: 3 });
  });

  it("end with exit code 3 if nothing listens, and with 1 if the gateway reports a mistake", async () => {
    // Nothing listens on port 1.
    const nobody = await command(["budget"], { ADMIN_PORT: "1" });
    expect([nobody.code, nobody.output]).toEqual([3, expect.stringContaining("http://127.0.0.1:1")]);
    const gateway = await startGateway();
    const mistake = await command(["explain", "/listings?limit=501", "--admin-url", gateway.adminUrl]);
    expect([mistake.code, mistake.output]).toEqual([
      1,
      expect.stringMatching(/^400 .*\n[^]*limit: found "501"; expected a whole number/),
    ]);
  });
});
