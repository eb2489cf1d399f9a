/** The command line against a running gateway. */
import { chmodSync, readFileSync } from "node:fs";
import { dirname } from "node:path";

import { describe, expect, it } from "vitest";

import { createAuthority } from "../support/certificates.ts";
import { command } from "../support/command.ts";
import { fileWith, temporaryDirectory } from "../support/files.ts";
import { gatewayEnv, startGateway, type TestGateway } from "../support/gateway.ts";
import { run } from "../support/process.ts";

const TOKEN = "token-of-this-test-only-0123456789abcdef";
const NAMES =
  "start demo sandbox check-config doctor health status explain usage budget purge warm reload backup try";

describe("the command line", () => {
  it("ends quietly when its reader has read enough, as with `| head`", async () => {
    const running = run(["check-config"], gatewayEnv());
    running.child.stdout?.destroy();
    expect([await running.ended, running.output()]).toEqual([0, ""]);
  });

  it("shows every command in its help; each command has its own help and the version", async () => {
    const { code, output } = await command(["--help"]);
    expect(code).toBe(0);
    for (const name of NAMES.split(" ")) expect(output).toMatch(new RegExp(`^  ${name}\\b`, "m"));
    const { version }: { version: string } = JSON.parse(readFileSync("package.json", "utf8"));
    for (const name of ["health", "reload"]) {
      const help = await command([name, "--help"]);
      expect([help.code, help.output]).toEqual([0, expect.stringContaining(`property-gateway ${name}`)]);
      expect(await command([name, "--version"])).toEqual({ code: 0, output: `${version}\n` });
    }
  });

  it.each([
    [["strat"], "Did you mean start?"],
    [["usage", "--form", "-7d"], "Did you mean --from?"],
    [["start", "--port", "http"], "Expected a port from 0 to 65535"],
    [["sandbox", "--listings", "many"], "Expected an integer from 0 to 1000000"],
    [["sandbox", "--port", "4000", "--control-port", "4000"], "must differ"],
    [["health", "a", "b"], "too many arguments"],
    [["purge", "/areas", "--all"], "Give one of"],
    [["budget", "--admin-url", "localhost"], "--admin-url must be an address"],
  ])("refuses %j with exit code 2 and a hint", async (args, said) => {
    expect(await command(args)).toEqual({ code: 2, output: expect.stringContaining(said) });
  });

  it("accepts settings as options, which override the environment", async () => {
    const file = fileWith("sever: { port: 80 }", "mine.yaml");
    const checked = await command(["check-config", "--config", file], { CONFIG_FILE: "/no/such/file" });
    expect(checked).toEqual({ code: 1, output: expect.stringContaining(`${file}:1`) });
    expect(checked.output).not.toContain("/no/such/file");
  });
});

/** Runs a command against the admin port of a gateway. */
const tell = ({ adminUrl }: TestGateway, ...args: readonly string[]) =>
  command([...args, "--admin-url", adminUrl]);

describe("commands that ask the admin port", () => {
  it("explain says what is cached, what a request costs, and why requests were no hits", async () => {
    const gateway = await startGateway();
    const url = "http://gateway.example/areas?limit=3&q= Nacka ";
    const before = await tell(gateway, "explain", url);
    expect(before.output).toMatch(
      /^Not cached \(not stored\)\.\n\nentry\nquery +areas\?q=Nacka&limit=3\nkey[^]*\n\nA request of the app other .* is fetched.* It costs one call\.\n/,
    );
    expect(before.output).toContain("remembers no request for this URL that was not a hit");
    await gateway.get("/areas?q=Nacka&limit=3");
    const after = await tell(gateway, "explain", url, "--app", "web");
    expect(after.output).toMatch(
      /^Cached in memory, .* old, fresh for [^]*\n\nA request of the app web \(never seen\) is answered from the cache\. It costs no call/,
    );
    expect(after.output).toMatch(/UTC +other +miss +200 .* Nothing usable was cached\.$/m);
  });

  it("usage, budget and status count the calls, as tables and as JSON", async () => {
    const gateway = await startGateway({ env: { BUDGET: "60/1m" } });
    for (const path of ["/areas?q=Nacka", "/sold?limit=1", "/areas?q=Nacka"]) await gateway.get(path);
    const usage = await tell(gateway, "usage", "--by", "resource");
    expect(usage.output).toMatch(/^sold +1 +1 +0/m);
    expect(usage.output).toMatch(/^total +2 +2 +0/m);
    expect(usage.output).toMatch(/^1m +60 +2 .* yes$/m);
    const budget = await tell(gateway, "budget");
    expect(budget.output).toMatch(/^1m +60 +1 min +2 +58 +calls 1, in \d+ s +other 2/m);
    expect(JSON.parse((await tell(gateway, "budget", "--json")).output)).toMatchObject({ mode: "enforce" });
    const status = await tell(gateway, "status");
    expect(status.output).toMatch(/^GOOD: All is well:/);
    expect(status.output).toMatch(/^other +is answered +- +1 +0 +2 +0 +0 +0 +0 +- +1m 2/m);
    expect(status.output).toMatch(/^1m +60 +2 +58 +0 +calls 1, in \d+ s/m);
    expect(status.output).toMatch(/^hit +1$/m);
  });

  it("purge makes an answer stale, and warm shows the listed answers", async () => {
    const gateway = await startGateway({ settings: 'warm: [{ url: "/areas?q=Nacka", every: 1h }]' });
    const warm = expect.stringMatching(/^areas\?q=Nacka .* refreshed$/m);
    await expect.poll(() => tell(gateway, "warm")).toEqual({ code: 0, output: warm });
    const purged = /^Purged the answer \S+areas\?q=Nacka\}\. Purged answers are never served again\.$/m;
    const purge = await tell(gateway, "purge", "/areas?q=Nacka", "--hard");
    expect(purge).toEqual({ code: 0, output: expect.stringMatching(purged) });
    const explained = await tell(gateway, "explain", "/areas?q=Nacka", "--json");
    expect(JSON.parse(explained.output)).toMatchObject({ entry: { query: "areas?q=Nacka" } });
    expect(explained.output).not.toContain('"why": "fresh"');
  });

  it("reload applies the settings, or shows every mistake", async () => {
    let settings = "cache: { ttl: { areas: 1h } }";
    const gateway = await startGateway({ settings: () => settings });
    settings = "cache: { ttl: { areas: 1m } }";
    expect((await tell(gateway, "reload")).output).toMatch(/cache\.ttl\.areas +1h +1m/);
    settings = "cache: { ttl: { areas: soon, sold: late } }";
    const mistakes = expect.stringMatching(/sold: found.*\n.*areas: found/);
    expect(await tell(gateway, "reload")).toEqual({ code: 1, output: mistakes });
  });

  it("try makes the next call a probe", async () => {
    const gateway = await startGateway();
    gateway.sandbox.faults.add({ status: 429, retryAfter: "60", times: 1 });
    expect((await gateway.get("/areas?q=a")).status).toBe(503);
    expect((await tell(gateway, "try")).output).toContain("The next call tries api/all.");
    expect((await gateway.get("/areas?q=a")).status).toBe(200);
  });

  it("send the token from a file or the environment, and report a missing token", async () => {
    const gateway = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const missing = expect.stringMatching(/^401 .*\n.*ADMIN_TOKEN/);
    expect(await tell(gateway, "budget")).toEqual({ code: 1, output: missing });
    const file = fileWith(`${TOKEN}\n`, "token");
    expect((await tell(gateway, "budget", "--token-file", file)).code).toBe(0);
    const at = ["--admin-url", gateway.adminUrl];
    expect((await command(["budget", ...at], { ADMIN_TOKEN: TOKEN })).code).toBe(0);
  });

  it("use TLS if the settings have a certificate for the admin port, and trust no other one", async () => {
    const authority = createAuthority();
    const pairOf = (hosts: string[]): Record<string, string> => {
      const { cert, key } = authority.issue(hosts);
      return { ADMIN_TLS_CERT_FILE: fileWith(cert), ADMIN_TLS_KEY_FILE: fileWith(key) };
    };
    const pair = pairOf(["gateway.example.com"]);
    const gateway = await startGateway({ env: { ...pair, ADMIN_TOKEN: TOKEN } });
    // A mistake elsewhere in the settings does not end a running gateway.
    const file = fileWith(`{ admin: { tokenFile: ${fileWith(TOKEN)} }, bogus: 1 }`);
    const settings = { ...gatewayEnv(), ADMIN_PORT: String(gateway.adminPort), CONFIG_FILE: file };
    expect(await command(["health"], { ...settings, ...pair })).toEqual({ code: 0, output: "" });
    expect(await command(["budget"], { ...settings, ...pair })).toMatchObject({ code: 0 });
    const another = pairOf(["127.0.0.1"]);
    expect(await command(["health"], { ...settings, ...another })).toMatchObject({ code: 1 });
    expect(await command(["budget"], { ...settings, ...another })).toMatchObject({ code: 3 });
  });

  it("end with exit code 3 if nothing listens, and with 1 if the gateway reports a mistake", async () => {
    // Nothing listens on port 1.
    const nobody = await command(["budget"], { ADMIN_PORT: "1" });
    expect(nobody).toEqual({ code: 3, output: expect.stringContaining("http://127.0.0.1:1") });
    const gateway = await startGateway();
    const mistake = expect.stringMatching(/^400 .*\n[^]*limit: found "501"; expected a whole number/);
    expect(await tell(gateway, "explain", "/listings?limit=501")).toEqual({ code: 1, output: mistake });
  });
});

describe("doctor", () => {
  const lineOf = (output: string, name: string): string =>
    output.split("\n").find((line) => line.slice(9).startsWith(name)) ?? "";

  it("finds nothing wrong with a gateway that can start, and sends a call only if asked to", async () => {
    const gateway = await startGateway();
    const env = {
      ...gatewayEnv(gateway.sandboxUrl),
      BUDGET: "60/1m",
      UPSTREAM_USER_AGENT: "acme-gateway/1.0 (ops@acme.test)",
      UPSTREAM_REFERRER: "https://acme.test/",
    };
    const without = await command(["doctor"], env);
    expect(without).toEqual({ code: 0, output: expect.not.stringContaining("problem ") });
    for (const name of ["settings", "Redis", "property API", "image server"])
      expect(lineOf(without.output, name)).toMatch(/^ok /);
    expect(lineOf(without.output, "DATA_DIR")).toMatch(/^warning .*set DATA_DIR or REDIS_URL/);
    expect(gateway.sandbox.requests()).toEqual([]);
    const absent = `${temporaryDirectory()}/new/data`;
    const called = await command(["doctor", "--call"], { ...env, DATA_DIR: absent });
    expect(lineOf(called.output, "DATA_DIR")).toBe(`ok       DATA_DIR      ${absent}`);
    expect(lineOf(called.output, "signed call")).toMatch(/^ok .*200/);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("names each problem with its remedy, and ends with exit code 1", async () => {
    const gateway = await startGateway();
    const directory = fileWith("not a directory", "data");
    const key = fileWith("wrong", "key");
    const env = {
      ...gatewayEnv(gateway.sandboxUrl),
      UPSTREAM_PRIVATE_KEY: "",
      UPSTREAM_PRIVATE_KEY_FILE: key,
      UPSTREAM_IMAGE_URL: "http://127.0.0.1:9",
      UPSTREAM_REFERRER: "https://www.example.com/",
      REDIS_URL: "redis://127.0.0.1:9",
      DATA_DIR: directory,
    };
    const lineAbout = async (DATA_DIR: string): Promise<string> =>
      lineOf((await command(["doctor"], { ...env, REDIS_URL: "", DATA_DIR })).output, "DATA_DIR");
    expect(await lineAbout(directory)).toMatch(/^problem .*not a directory/);
    chmodSync(dirname(directory), 0o777);
    expect(await lineAbout(dirname(directory))).toMatch(/^problem .*"chmod o-w /);
    const { code, output } = await command(["doctor", "--call"], env);
    expect(code).toBe(1);
    expect(output).toMatch(/^warning  settings .*UPSTREAM_REFERRER.* is a placeholder/m);
    expect(lineOf(output, "DATA_DIR")).toMatch(/^ok .*not used/);
    expect(lineOf(output, "Redis")).toMatch(/^problem .*REDIS_URL/);
    expect(lineOf(output, "image server")).toMatch(/^problem .*ECONNREFUSED.*UPSTREAM_IMAGE_URL/);
    expect(lineOf(output, "signed call")).toMatch(/^problem .*refuses the key.*UPSTREAM_PRIVATE_KEY/);
    expect(output).toContain("Found 3 problems.");
    expect(output).not.toContain("wrong");
  });

  it("checks the rest when the settings are valid", async () => {
    const output = expect.stringMatching(/^problem  settings .*PORT.*\nThe rest is checked/);
    expect(await command(["doctor"], { ...gatewayEnv(), PORT: "http" })).toEqual({ code: 1, output });
  });
});
