import { execFileSync } from "node:child_process";
import { open, rename } from "node:fs/promises";

import { describe, expect, it } from "vitest";

import { ask, post } from "../support/ask.ts";
import { command } from "../support/command.ts";
import { fileWith, temporaryDirectory } from "../support/files.ts";
import { listening, startFleet } from "../support/fleet.ts";
import { clientOf, gatewayEnv } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { run, runInTerminal, runScript } from "../support/process.ts";

describe("the gateway's process", () => {
  it("is not ended by a SIGHUP before it has read its settings", async () => {
    const file = `${temporaryDirectory()}/settings.yaml`;
    execFileSync("mkfifo", [file]);
    const gateway = run(["start"], { ...gatewayEnv(), CONFIG_FILE: file });
    // A pipe opens at both ends at once: when the gateway reads it.
    const pipe = await open(file, "w");
    void gateway.kill("SIGHUP");
    await rename(fileWith(""), file);
    await pipe.close();
    await gateway.says(/property-gateway listens/);
  });

  /** Node opens its inspector on SIGUSR1 unless it runs with --disable-sigusr1. Anyone on the machine could use it. */
  it.each([
    ["npm start", (env: Readonly<Record<string, string>>) => runScript("start", env)],
    ["hand", (env: Readonly<Record<string, string>>) => run(["gateway"], env)],
  ])("started by %s opens no inspector on SIGUSR1 and keeps running", async (_how, start) => {
    const [port = 0] = await freePorts(1);
    const { env } = await startFleet({ NODE_OPTIONS: `--inspect-port=127.0.0.1:${port}` });
    const gateway = await listening(start(env));
    // Node opens it within a few milliseconds: long before so many rounds have passed.
    for (let round = 0; round < 200; round++) {
      if (round % 50 === 0) void gateway.kill("SIGUSR1");
      expect((await gateway.get("/nowhere")).status).toBe(404);
    }
    await expect(ask(`http://127.0.0.1:${port}/json`)).rejects.toThrow("ECONNREFUSED");
    expect(gateway.output()).not.toMatch(/debugger|inspector/i);
    expect(await gateway.kill("SIGTERM")).toBe(0);
  });

  it("stops in order when the reader of its log has gone", async () => {
    const gateway = await (await startFleet({ STOP_DELAY: "5s" })).start();
    gateway.child.stdout?.destroy();
    // Its line in the log is the first one that fails.
    expect((await gateway.get("/listings?limit=1")).status).toBe(200);
    await expect.poll(async () => (await gateway.admin("/readyz")).status).toBe(503);
    // The stop does not interrupt requests, although every line of the log fails.
    for (let n = 0; n < 30; n++) expect((await gateway.get(`/listings/${n + 1}`)).status).toBeLessThan(500);
    expect(await gateway.ended).toBe(1);
  });

  it("ends at a signal, although the reader of its log goes at the same moment, or reads nothing any more", async () => {
    const fleet = await startFleet({ STOP_DELAY: "0s", LOG_ACCESS: "on" });
    const [gone, silent] = await Promise.all([fleet.start(), fleet.start()]);
    gone.child.stdout?.destroy();
    expect([0, 1]).toContain(await gone.kill("SIGTERM"));
    silent.child.stdout?.pause();
    silent.child.once("exit", () => silent.child.stdout?.resume());
    // The pipe is too small for their lines.
    for (let n = 0; n < 300; n++) await silent.get(`/areas?q=${"n".repeat(2_000)}`);
    expect(await silent.kill("SIGTERM")).toBe(0);
  });

  it("and the sandbox end with a reason if a port is taken", async () => {
    const fleet = await startFleet();
    const taken = new URL(fleet.env["UPSTREAM_URL"] ?? "").port;
    const reason = `Port ${taken} is in use. Choose another with`;
    const options = `--port 0 --control-port ${taken} --listings 1 --sold 1`;
    for (const [running, says] of [
      [fleet.begin({ PORT: taken }), `${reason} --port, PORT or server.port.\n`],
      [run(["sandbox", ...options.split(" ")]), `sandbox: ${reason} --control-port.\n`],
    ] as const)
      expect([await running.ended, running.output()]).toEqual([1, expect.stringContaining(says)]);
  });
});

/** A condition that holds soon, also on a busy machine. */
const PATIENCE_MS = 30_000;

describe("the demo", () => {
  it("shows addresses and commands to try, which all work, and stops on Ctrl-C", async () => {
    const demo = run(["demo"], { PORT: "0", ADMIN_PORT: "0" });
    await demo.says(/Ctrl-C/);
    const linesWith = (pattern: RegExp): RegExpExecArray[] => [...demo.output().matchAll(pattern)];
    const requests = linesWith(/^ +curl -i '(http:[^']+)'$/gm);
    const statuses = requests.map(async ([, address = ""]) => (await ask(address)).status);
    expect(await Promise.all(statuses)).toEqual([200, 400]);
    const commands = linesWith(/^ +npm run -s cli -- (.+)$/gm);
    const codes = commands.map(async ([, line = ""]) => {
      const words = line.match(/'[^']*'|\S+/g) ?? [];
      return (await command(words.map((word) => word.replaceAll("'", "")))).code;
    });
    expect(await Promise.all(codes)).toEqual([0, 0]);
    const [, url = ""] = /property-gateway +(http:\S+)/.exec(demo.output()) ?? [];
    expect((await ask(`${url}/listings?areaId=76&limit=3`)).status).toBe(200);
    const [[, faults = "", fault = ""] = []] = linesWith(/^ +curl -X POST (http:\S+) -d '(.+)' /gm);
    expect((await post(faults, fault)).status).toBe(200);
    expect((await ask(`${url}/sold?areaId=9`)).status).toBeGreaterThan(500);
    expect(await demo.kill("SIGINT")).toBe(0);
  });

  it("sends the requests of five apps, which keys of a terminal break and heal", async () => {
    const demo = runInTerminal(["demo"], { PORT: "0", ADMIN_PORT: "0" });
    await demo.says(/Keys: /);
    const [, url = ""] = await demo.says(/property-gateway +(http:\S+?)\s/);
    const [, adminUrl = ""] = await demo.says(/status page +(http:\S+?)\/\s/);
    const { get, shows } = clientOf({ url, adminUrl });
    let asked = 0;
    /** Types a key, and waits until a new question of an app ends this way. */
    const press = async (key: string, says: string, status: number): Promise<void> => {
      demo.type(key);
      await demo.says(new RegExp(`${key} {2}${says}`));
      const answers = async (): Promise<number> => (await get(`/areas?q=new-${asked++}`)).status;
      await expect.poll(answers, { timeout: PATIENCE_MS }).toBe(status);
    };
    const appsAre = (...ids: string[]): Promise<void> =>
      expect
        .poll(async () => (await shows("/status")).apps, { timeout: PATIENCE_MS })
        .toEqual(expect.arrayContaining(ids.map((app) => expect.objectContaining({ app }))));

    await appsAre("web", "ios", "android", "partner", "statistics");
    await press("2", "Wrong key", 502);
    await press("0", "Healed", 200);
    await press("3", "A hog", 200);
    await appsAre("hog");
    await press("4", "Redis away", 200);
    await press("1", "API down", 503);
    demo.type("q");
    expect(await demo.ended).toBe(0);
  });
});
