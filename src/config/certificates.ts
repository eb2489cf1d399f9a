import { X509Certificate } from "node:crypto";

import type { ReadableSettings } from "./cross-check.ts";
import { formatPath, type SettingPath } from "./setting-path.ts";
import type { SettingSources } from "./setting-sources.ts";

/** The certificate authorities that the settings name, as PEM; `null`: Node's own. */
export interface Authorities {
  readonly upstream: string | null;
  readonly redis: string | null;
}

/**
 * Reads the files of certificate authorities. A file that holds something else is refused here: TLS itself would
 * take it for an empty list, and trust nobody without saying why.
 * @returns them, and a line per file that cannot be used
 */
export function readAuthorities(
  { upstream, redis }: ReadableSettings,
  sources: SettingSources,
  readFile: (path: string) => string,
): Authorities & { readonly problems: readonly string[] } {
  const problems: string[] = [];
  const read = (file: string | null | undefined, ...path: SettingPath): string | null => {
    if (!file) return null;
    const fault = (found: string): null => {
      const at = `${sources.nameOf(path)}: ${formatPath(path)}`;
      problems.push(`${at}: ${found}; expected the path of a file with certificates in PEM form`);
      return null;
    };
    let text: string;
    try {
      text = readFile(file);
    } catch (error) {
      const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
      return fault(`${JSON.stringify(file)} cannot be read${code}`);
    }
    return holdsCertificates(text) ? text : fault(`${JSON.stringify(file)} holds none, or a broken one`);
  };
  return {
    upstream: read(upstream?.caFile, "upstream", "caFile"),
    redis: read(redis?.caFile, "redis", "caFile"),
    problems,
  };
}

const BLOCK = /-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs;

function holdsCertificates(text: string): boolean {
  const blocks = text.match(BLOCK) ?? [];
  const isBroken = text.split("-----BEGIN CERTIFICATE-----").length - 1 !== blocks.length;
  return blocks.length > 0 && !isBroken && blocks.every(isCertificate);
}

function isCertificate(block: string): boolean {
  try {
    return new X509Certificate(block).raw.length > 0;
  } catch {
    return false;
  }
}
