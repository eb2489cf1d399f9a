import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { onTestFinished } from "vitest";

/** What a test reads of a file or an answer whose form is checked elsewhere. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Anything = any;

/** A directory that is gone when the test is over. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "property-gateway-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A file in a directory of its own. @returns its path */
export function fileWith(text: string, name = "settings.yaml"): string {
  const path = join(temporaryDirectory(), name);
  writeFileSync(path, text);
  return path;
}
