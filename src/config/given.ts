import { type Authorities, readAuthorities } from "./certificates.ts";
import type { ReadableSettings } from "./cross-check.ts";
import { ADMIN_TOKEN, chooseSecret, PRIVATE_KEY } from "./given-secret.ts";
import type { Secret } from "./secret.ts";
import type { SettingFault } from "./setting-check.ts";
import type { SettingSources } from "./setting-sources.ts";

/** What the settings name and need not hold themselves. */
export interface Given {
  readonly privateKey: Secret;
  readonly token: Secret | null;
  readonly authorities: Authorities;
}

/**
 * Reads the secrets and the certificates.
 * @param mayBeMissing whether what is not given is missing, and not perhaps in a file that could not be read
 * @returns them, and a line per problem; without them where something was wrong here or in the settings
 */
export function readGiven(
  settings: ReadableSettings,
  faults: readonly SettingFault[],
  sources: SettingSources,
  readFile: (path: string) => string,
  mayBeMissing: boolean,
): { readonly given?: Given; readonly problems: readonly string[] } {
  const key = chooseSecret(PRIVATE_KEY, settings, faults, sources, readFile);
  const token = chooseSecret(ADMIN_TOKEN, settings, faults, sources, readFile);
  const authorities = readAuthorities(settings, sources, readFile);
  const problems = [
    ...[key, token].flatMap((chosen) =>
      chosen && "problem" in chosen && (mayBeMissing || !chosen.missing) ? [chosen.problem] : [],
    ),
    ...authorities.problems,
  ];
  if (problems.length > 0 || !key || !("secret" in key) || !token || !("secret" in token))
    return { problems };
  if (key.secret === null) return { problems };
  return { given: { privateKey: key.secret, token: token.secret, authorities }, problems };
}
