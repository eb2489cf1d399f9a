/** What keeps the gateway running on a machine without containers: systemd's unit, and `npm start` below any other. */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { openSettings } from "../../src/config/load.ts";
import { ask } from "../support/ask.ts";
import { fileWith, temporaryDirectory } from "../support/files.ts";
import { CALLER, gatewayEnv } from "../support/gateway.ts";
import { argumentsOf, follow, runProgram } from "../support/process.ts";
import { type Said, systemdAnalyze } from "../support/tools.ts";

const READY = /"callers":"(http:[^"]+)","admin":"(http:[^"]+)".*?\n/;
const LONGER = "cache: { ttl: { areas: 2h } }";

/** `npm start`, for a process manager that knows only the process id of what it has started. */
async function manageNpm() {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 5, sold: 5 } });
  onTestFinished(sandbox.close);
  const settingsFile = fileWith("cache: { ttl: { areas: 1h } }");
  const env = gatewayEnv((await sandbox.listen()).url);
  const child = spawn("npm", ["start"], {
    env: { ...process.env, ...env, BUDGET: "1000/1m", CONFIG_FILE: settingsFile },
    stdio: ["ignore", "pipe", "pipe"],
    // A group of its own, so that the test can end all of it.
    detached: true,
  });
  const running = follow(child);
  const pid = child.pid ?? 0;
  onTestFinished(() => {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // All of it has ended.
    }
  });
  const [, url = ""] = await running.says(READY);
  return { ...running, pid, sandbox, settingsFile, url };
}

describe("npm start", () => {
  it("keeps running when SIGHUP makes the gateway reload, passes SIGTERM on, and ends after the last answer", async () => {
    const { url, sandbox, ...npm } = await manageNpm();
    const children = readFileSync(`/proc/${npm.pid}/task/${npm.pid}/children`, "utf8");
    writeFileSync(npm.settingsFile, LONGER);
    process.kill(Number(children), "SIGHUP");
    await npm.says(/"by":"SIGHUP","changes":\["cache.ttl.areas: 1h → 2h"\]/);
    sandbox.hold();
    const inFlight = ask(`${url}/areas?q=Nacka`);
    await sandbox.waitForRequests(1);
    process.kill(npm.pid, "SIGTERM");
    await npm.says(/"signal":"SIGTERM"/);
    sandbox.release();
    expect((await inFlight).status).toBe(200);
    expect(await npm.ended).toBe(0);
    expect(npm.output()).toMatch(/"msg":"stopped"/);
  });

  // npm has no handler for SIGHUP, and nothing that it starts can give it one.
  it("has no gateway left behind when npm itself is ended by SIGHUP or SIGKILL", async () => {
    const npm = await manageNpm();
    process.kill(npm.pid, "SIGHUP");
    // The output ends when the last process that writes to it has ended.
    expect(await npm.ended).toBe("SIGHUP");
    expect(npm.output()).toMatch(/because npm has ended[^]*"msg":"stopped"/);
  });
});

it("npm run sandbox leaves no sandbox behind when npm gets SIGTERM", async () => {
  const small = "--port 0 --control-port 0 --listings 10 --sold 10".split(" ");
  const npm = runProgram("npm", ["run", "sandbox", "--", ...small]);
  await npm.says(/interface +http/);
  npm.child.kill("SIGTERM");
  // The output ends when the last process that writes to it has ended.
  await npm.ended;
});

describe("systemd's unit", () => {
  const UNIT = "deploy/systemd/property-gateway.service";
  const text = readFileSync(UNIT, "utf8");
  /** The values of a key, in their order. */
  const values = (key: string): string[] =>
    [...text.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value = ""]) => value);
  const [workingDirectory = ""] = values("WorkingDirectory");
  const [node = "", ...args] = values("ExecStart")[0]?.split(" ") ?? [];

  /** systemd-analyze, on the unit as it would be if the gateway were installed. */
  function analyze(verb: string, unit: string, ...options: string[]): Said {
    const file = join(temporaryDirectory(), basename(UNIT));
    writeFileSync(file, unit.replace(`ExecStart=${node}`, `ExecStart=${process.execPath}`));
    return systemdAnalyze(verb, ...options, file);
  }

  it("is what systemd knows, to the last key, and exposes little", () => {
    expect(analyze("verify", text)).toEqual({ status: 0, output: "" });
    // On a scale from 0 (nothing) to 100.
    const exposure = ["--offline=true", "--threshold=20"];
    expect(analyze("security", text, ...exposure).status).toBe(0);
    // Mistakes are found.
    expect(analyze("verify", text.replace("NoNewPriv", "NoNewProv")).output).toMatch(/Unknown key/);
    expect(analyze("security", text.replace(/^Protect.*\n/gm, ""), ...exposure).status).not.toBe(0);
  });

  it("starts the pinned Node with the options of npm start, and gives it the time that a stop may take", () => {
    expect(node).toBe(`${workingDirectory}/node_modules/.bin/node`);
    expect(args).toEqual(argumentsOf("start"));
    const { server } = openSettings({ env: { ...gatewayEnv(), STOP_DELAY: "" } }).first.config;
    const stopMs = server.stopDelayMs + server.drainTimeoutMs;
    expect(Number(values("TimeoutStopSec")[0]) * 1_000).toBeGreaterThan(stopMs + 5_000);
  });

  it("reloads with SIGHUP, and keeps the data where systemd lets it write", () => {
    expect(values("ExecReload")).toEqual(["/bin/kill -HUP $MAINPID"]);
    expect(values("Environment")).toContain(`DATA_DIR=/var/lib/${values("StateDirectory")[0]}`);
  });
});
