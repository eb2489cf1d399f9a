/**
 * Names of credentials. Callers send keys, tokens and old signatures by mistake. The gateway drops a parameter with such a
 * name, whatever its value, so that it is neither sent to the upstream nor part of a cache key.
 */
import { CREDENTIAL_PARAMETERS } from "../interface/parameters.ts";

const SIGNATURE_NAMES = new Set(CREDENTIAL_PARAMETERS.map((name) => name.toLowerCase()));
/** Without separators and in lower case: `X-Api-Key` is `xapikey`. */
const CREDENTIAL_NAME =
  /^(?:key|token|secret|passw(?:or)?d|pwd|auth|authorization|bearer|credentials?|signature|sig)$|(?:api|private|access|secret|client|admin|auth|app)(?:key|token|secret|password)$/;

/** Whether a parameter belongs to a signature (interface, section 5), or has the name of a key, token or password. */
export function isCredentialName(name: string): boolean {
  // PHP, which the upstream seems to use, ignores the rest of a name after a bracket or a zero byte.
  const [bare = ""] = name.toLowerCase().split(/[[\0]/, 1);
  return SIGNATURE_NAMES.has(bare.trim()) || CREDENTIAL_NAME.test(bare.replaceAll(/[^a-z]/g, ""));
}
