/** The private key changes as a mounted secret does, under traffic. */
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { ask } from "../support/ask.ts";
import { temporaryDirectory } from "../support/files.ts";
import { crowd, startFleet, type Fleet, type Replica } from "../support/fleet.ts";
import { CALLER } from "../support/gateway.ts";

const NEW_KEY = "N3w-key-that-nobody-may-ever-see";

interface Mount {
  /** Of the file with the key. */
  readonly path: string;
  /** Points the directory's link elsewhere, as the kubelet does: all at once. */
  readonly swap: (key: string) => void;
}

function mountSecret(key: string): Mount {
  const directory = temporaryDirectory();
  let version = 0;
  function swap(content: string): void {
    const target = `..version_${++version}`;
    mkdirSync(join(directory, target));
    writeFileSync(join(directory, target, "key"), content);
    symlinkSync(target, join(directory, "..data_tmp"));
    renameSync(join(directory, "..data_tmp"), join(directory, "..data"));
  }
  swap(key);
  symlinkSync(join("..data", "key"), join(directory, "key"));
  return { path: join(directory, "key"), swap };
}

async function start(mount: Mount): Promise<{ fleet: Fleet; replica: Replica }> {
  const fleet = await startFleet({
    UPSTREAM_PRIVATE_KEY: "",
    UPSTREAM_PRIVATE_KEY_FILE: mount.path,
    BUDGET: "100000/1m",
    BUDGET_CONCURRENCY: "8",
    LOG_LEVEL: "trace",
  });
  const replica = await fleet.start();
  onTestFinished(() => {
    for (const key of [CALLER.privateKey, NEW_KEY]) expect(replica.process.output()).not.toContain(key);
  });
  return { fleet, replica };
}

describe("a private key in a file", () => {
  it("is used from the next signature on when it changes", async () => {
    const mount = mountSecret(`${CALLER.privateKey}\n`);
    const { fleet, replica } = await start(mount);
    expect((await ask(`${replica.url}/areas?q=old`)).status).toBe(200);
    mount.swap(`${NEW_KEY}\n`);
    await replica.process.says(/The new content is in use/);
    fleet.sandbox.setCaller({ privateKey: NEW_KEY });
    expect((await ask(`${replica.url}/areas?q=new`)).status).toBe(200);
    expect(fleet.arrivals()).toHaveLength(2);
    // If a caller sends one of the keys by mistake, the gateway does not send it upstream.
    const asked = `/areas?q=new&key=${NEW_KEY}&token=${CALLER.privateKey}`;
    expect((await ask(replica.url + asked)).status).toBe(200);
    for (const key of [NEW_KEY, CALLER.privateKey])
      expect(JSON.stringify(fleet.sandbox.requests())).not.toContain(key);
  });

  it("is read again at once when the upstream refuses the old one, and no request fails", async () => {
    const mount = mountSecret(CALLER.privateKey);
    const { fleet, replica } = await start(mount);
    const callers = crowd(() => [replica], 8);
    await expect.poll(() => callers.statuses.length).toBeGreaterThan(20);
    // All eight requests are signed with the old key. The sandbox checks signatures when it releases the requests.
    fleet.sandbox.hold();
    await expect.poll(() => fleet.sandbox.waiting()).toBe(8);
    mount.swap(NEW_KEY);
    fleet.sandbox.setCaller({ privateKey: NEW_KEY });
    fleet.sandbox.release();
    const since = callers.statuses.length;
    await expect.poll(() => callers.statuses.length).toBeGreaterThan(since + 50);
    await callers.stop();
    expect(callers.statuses.filter((status) => status !== 200)).toEqual([]);
    expect(replica.process.output().match(/"status":403/g)).toHaveLength(8);
    expect(replica.process.output()).not.toMatch(/The upstream refuse[sd] our credentials/);
  });

  it("and the one before it are both tried while the API is later or earlier than the file; the log says which it takes", async () => {
    const mount = mountSecret(CALLER.privateKey);
    const { fleet, replica } = await start(mount);
    const ask3 = async (word: string): Promise<void> => {
      for (let n = 0; n < 3; n++) expect((await ask(`${replica.url}/areas?q=${word}${n}`)).status).toBe(200);
    };
    mount.swap(NEW_KEY);
    await replica.process.says(/The new content is in use/);
    await ask3("early");
    await replica.process.says(/The API takes the previous private key/);
    fleet.sandbox.setCaller({ privateKey: NEW_KEY });
    await ask3("late");
    await replica.process.says(/The API takes the new private key/);
    // Each mismatch costs one call.
    expect(fleet.arrivals()).toHaveLength(8);
    expect(replica.process.output()).not.toMatch(/The upstream refuse[sd] our credentials/);
    fleet.sandbox.setCaller({ privateKey: "another one" });
    expect((await ask(`${replica.url}/areas?q=neither`)).status).toBe(502);
    expect(fleet.arrivals()).toHaveLength(10);
    await replica.process.says(/The upstream refused our credentials/);
  });

  it("stays in use when the file no longer holds a valid key; the log says so without showing the content", async () => {
    const mount = mountSecret(CALLER.privateKey);
    const { replica } = await start(mount);
    for (const [index, content] of ["", "two\nlines", " blanks around "].entries()) {
      mount.swap(content);
      await replica.process.says(
        new RegExp(`(The previous content stays in use[^]*){${Math.min(index + 1, 2)}}`),
      );
      expect((await ask(`${replica.url}/areas?q=still-${index}`)).status).toBe(200);
    }
    expect(replica.process.output()).not.toMatch(/two\\nlines|blanks around "/);
    mount.swap(NEW_KEY);
    await replica.process.says(/The new content is in use/);
  });
});
