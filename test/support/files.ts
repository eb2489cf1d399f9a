import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { onTestFinished } from "vitest";

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
