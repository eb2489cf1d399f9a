/** The private key changes as a mounted secret does, under traffic. */
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { temporaryDirectory } from "../support/files.ts";
import { crowd } from "../support/fleet.ts";
import { CALLER, startGateway } from "../support/gateway.ts";

const NEW_KEY = "N3w-key-that-nobody-may-ever-see";

/** A gateway whose key is in a mounted file. No key may be in its log. */
async function start() {
  const directory = temporaryDirectory();
  let version = 0;
  /** Points the directory's link elsewhere, as the kubelet does: all at once. */
  function swap(content: string): void {
    const target = `..version_${++version}`;
    mkdirSync(join(directory, target));
    writeFileSync(join(directory, target, "key"), content);
    symlinkSync(target, join(directory, "..data_tmp"));
    renameSync(join(directory, "..data_tmp"), join(directory, "..data"));
  }
  swap(`${CALLER.privateKey}\n`);
  symlinkSync(join("..data", "key"), join(directory, "key"));
  const file = { UPSTREAM_PRIVATE_KEY: "", UPSTREAM_PRIVATE_KEY_FILE: join(directory, "key") };
  const gateway = await startGateway({ env: { ...file, BUDGET_CONCURRENCY: "8", LOG_LEVEL: "trace" } });
  onTestFinished(() => {
    for (const key of [CALLER.privateKey, NEW_KEY]) expect(gateway.log.join("")).not.toContain(key);
  });
  return { gateway, swap };
}

const CHANGED = "The new content is in use";
const REFUSED = /The upstream refuse[sd] our credentials/;

describe("a private key in a file", () => {
  it("is used from the next signature on when it changes", async () => {
    const { gateway, swap } = await start();
    expect((await gateway.get("/areas?q=old")).status).toBe(200);
    swap(`${NEW_KEY}\n`);
    await gateway.logged(CHANGED);
    gateway.sandbox.setCaller({ privateKey: NEW_KEY });
    expect((await gateway.get("/areas?q=new")).status).toBe(200);
    expect(gateway.sandbox.requests()).toHaveLength(2);
    expect(gateway.log.join("")).not.toContain("The API takes");
    // If a caller sends one of the keys by mistake, the gateway does not send it upstream.
    expect((await gateway.get(`/areas?key=${NEW_KEY}&token=${CALLER.privateKey}`)).status).toBe(200);
    for (const key of [NEW_KEY, CALLER.privateKey])
      expect(JSON.stringify(gateway.sandbox.requests())).not.toContain(key);
  });

  it("is read again at once when the upstream refuses the old one, and no request fails", async () => {
    const { gateway, swap } = await start();
    const { sandbox, log } = gateway;
    const callers = crowd(() => [gateway], 8);
    await expect.poll(callers.answered).toBeGreaterThan(20);
    // All eight requests are signed with the old key. The sandbox checks signatures when it releases the requests.
    sandbox.hold();
    await expect.poll(() => sandbox.waiting()).toBe(8);
    swap(NEW_KEY);
    sandbox.setCaller({ privateKey: NEW_KEY });
    sandbox.release();
    const since = callers.answered();
    await expect.poll(callers.answered).toBeGreaterThan(since + 50);
    await callers.stop();
    expect(callers.problems).toEqual([]);
    expect(log.join("").match(/"status":403/g)).toHaveLength(8);
    expect(log.join("")).not.toMatch(REFUSED);
  });

  it("and the one before it are both tried while the API is later or earlier than the file; the log says which it takes", async () => {
    const { gateway, swap } = await start();
    const { sandbox } = gateway;
    const ask3 = async (word: string): Promise<void> => {
      for (let n = 0; n < 3; n++) expect((await gateway.get(`/areas?q=${word}${n}`)).status).toBe(200);
    };
    swap("a mistake");
    await gateway.logged(CHANGED);
    await ask3("mistaken");
    await gateway.logged("The API takes the previous private key");
    // The mistake does not replace the key that the API takes.
    swap(NEW_KEY);
    await expect.poll(() => gateway.log.join("").match(RegExp(CHANGED, "g"))).toHaveLength(2);
    await ask3("early");
    sandbox.setCaller({ privateKey: NEW_KEY });
    await ask3("late");
    await gateway.logged("The API takes the new private key");
    // Each mismatch costs one call.
    expect(sandbox.requests()).toHaveLength(12);
    expect(gateway.log.join("")).not.toMatch(REFUSED);
    sandbox.setCaller({ privateKey: "another one" });
    expect((await gateway.get("/areas?q=neither")).status).toBe(502);
    expect(sandbox.requests()).toHaveLength(14);
    await gateway.logged("The upstream refused our credentials");
  });
});
