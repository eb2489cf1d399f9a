import { describe, expect, it, onTestFinished } from "vitest";

import type { FollowedFiles } from "../../../src/config/followed-files.ts";
import { followKeyFile } from "../../../src/config/private-key.ts";
import { createPrivateKeys, type PrivateKeys } from "../../../src/config/private-key.ts";
import { Secret } from "../../../src/config/secret.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";

interface Followed {
  readonly keys: PrivateKeys;
  readonly file: FollowedFiles;
  readonly clock: FakeClock;
  readonly said: string[];
  content: string | Error;
}

/** A file in a directory that cannot be watched, as on a network file system. */
function follow(): Followed {
  const keys = createPrivateKeys(new Secret("first"));
  const clock = createFakeClock();
  const said: string[] = [];
  const say = (message: string, fields: object): void =>
    void said.push(`${message} ${JSON.stringify(fields)}`);
  const file = followKeyFile({
    path: "/nowhere/at/all/key",
    keys,
    clock,
    readFile() {
      if (followed.content instanceof Error) throw followed.content;
      return followed.content;
    },
    info: say,
    warn: say,
  });
  onTestFinished(file.close);
  const followed: Followed = { keys, file, clock, said, content: "first\n" };
  return followed;
}

describe("a key file that cannot be watched", () => {
  it("is read every few seconds", async () => {
    const followed = follow();
    await followed.clock.advance(60_000);
    expect(followed.said).toEqual([]);
    followed.content = "second\n";
    await followed.clock.advance(5_000);
    expect(followed.keys.current()).toBe("second");
    expect(followed.keys.known).toEqual(["first", "second"]);
    expect(followed.said).toEqual(['The private key has changed. {"version":2}']);
  });

  it("is reported once for each fault, without its content", async () => {
    const followed = follow();
    followed.content = Object.assign(new Error("EACCES: /secret/path"), { code: "EACCES" });
    await followed.clock.advance(20_000);
    followed.content = "a\nb";
    await followed.clock.advance(20_000);
    followed.content = "first";
    await followed.clock.advance(5_000);
    followed.content = "a\nb";
    await followed.clock.advance(5_000);
    expect(followed.keys.current()).toBe("first");
    expect(followed.said.map((line) => /EACCES|not hold a key/.exec(line)?.[0])).toEqual([
      "EACCES",
      "not hold a key",
      "not hold a key",
    ]);
    expect(followed.said.join()).not.toMatch(/secret|a\\nb/);
  });

  it("is not read after closing", async () => {
    const followed = follow();
    followed.file.close();
    expect(followed.clock.pending).toBe(0);
  });

  it("may contain an earlier key again", () => {
    const followed = follow();
    for (const key of ["second", "first", "second"]) {
      followed.content = key;
      followed.file.check();
    }
    expect(followed.keys.version()).toBe(4);
    expect(followed.keys.known).toEqual(["first", "second"]);
  });
});
