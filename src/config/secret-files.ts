/**
 * Reads passwords, certificates and tokens again when their files change. `private-key.ts` does this for the private key.
 */
import type { Clock } from "../process/clock.ts";
import type { CertificatePair } from "./certificates.ts";
import type { Config } from "./config.ts";
import { type FollowedFiles, followFiles } from "./followed-files.ts";
import type { SettingsSource } from "./load.ts";
import type { PrivateKeys } from "./private-key.ts";
import type { Settings } from "./schema.ts";
import { secretsIn } from "./secret.ts";

/** Settings that name files, and the content of these files in the configuration. */
interface FileKind {
  readonly name: string;
  readonly paths: (settings: Settings) => readonly (string | null)[];
  readonly content: (config: Config) => readonly (CertificatePair | string | undefined | null)[];
}

const KINDS: readonly FileKind[] = [
  {
    name: "redis",
    paths: ({ redis }) => [redis.passwordFile, redis.sentinel.passwordFile, redis.certFile, redis.keyFile],
    content: ({ redis }) => [redis?.password?.reveal(), redis?.sentinel?.password?.reveal(), redis?.pair],
  },
  {
    name: "apps",
    paths: ({ apps }) => apps.listed.map(({ tokenFile }) => tokenFile),
    content: (config) => [...appTokensOf(config)].flat(),
  },
  {
    name: "server.tls",
    paths: ({ server: { tls } }) => [tls.certFile, tls.keyFile],
    content: ({ server }) => [server.tls],
  },
  {
    name: "admin.tls",
    paths: ({ admin: { tls } }) => [tls.certFile, tls.keyFile],
    content: ({ admin }) => [admin.tls],
  },
];

type Log = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface SecretFilesOptions {
  readonly source: SettingsSource;
  readonly keys: Pick<PrivateKeys, "mask">;
  readonly clock: Clock;
  readonly info: Log;
  readonly warn: Log;
}

export interface SecretFiles {
  /** The configuration with the current content of the files. Its other settings are as old as the last change of a file. */
  readonly current: () => Config;
  /** The tokens of apps by their ids. A change of the tokens makes a new map. */
  readonly appTokens: () => ReadonlyMap<string, string>;
  /**
   * Calls back when files have changed.
   * @param name the settings that name the files: `redis`, `apps`, `server.tls` or `admin.tls`
   */
  readonly onChange: (name: string, apply: (config: Config) => void) => void;
  /** Call it when the settings or the files may have changed. */
  readonly check: () => void;
  readonly close: () => void;
}

/** Follows the files that the settings name. An invalid file changes nothing, and is logged once. */
export function followSecretFiles({ source, keys, clock, info, warn }: SecretFilesOptions): SecretFiles {
  let config = source.first.config;
  let tokens = appTokensOf(config);
  let logged = "";
  let followed: { readonly paths: readonly string[]; readonly files: FollowedFiles } | undefined;
  const listeners: { readonly name: string; readonly apply: (config: Config) => void }[] = [];

  function check(): void {
    const { usable, problems } = source.reread();
    const found = problems.join("; ");
    if (usable === undefined) {
      if (found !== logged) warn("Passwords and certificates stay as they were.", { problems });
      logged = found;
      return;
    }
    logged = "";
    const next = usable.config;
    follow(usable.settings);
    const changed = KINDS.filter(({ content }) => textOf(content(config)) !== textOf(content(next)));
    if (changed.length === 0) return;
    config = next;
    tokens = appTokensOf(config);
    for (const secret of secretsIn(next)) keys.mask(secret);
    const names = changed.map(({ name }) => name);
    info("Files with passwords or certificates have changed. The new ones are in force.", {
      settings: names,
    });
    for (const { name, apply } of listeners) if (names.includes(name)) apply(next);
  }

  function follow(settings: Settings): void {
    const paths = KINDS.flatMap((kind) => kind.paths(settings)).filter((path) => path !== null);
    if (paths.join("\n") === followed?.paths.join("\n")) return;
    followed?.files.close();
    followed = paths.length > 0 ? { paths, files: followFiles({ paths, clock, check }) } : undefined;
  }

  follow(source.first.settings);
  return {
    current: () => config,
    appTokens: () => tokens,
    onChange: (name, apply) => void listeners.push({ name, apply }),
    check,
    close: () => followed?.files.close(),
  };
}

function appTokensOf({ apps }: Config): ReadonlyMap<string, string> {
  return new Map(apps.flatMap(({ id, token }) => (token === null ? [] : [[id, token.reveal()]])));
}

/** @returns a text for comparison. It contains the secrets. */
function textOf(content: ReturnType<FileKind["content"]>): string {
  return JSON.stringify(
    content.map((one) => (typeof one === "object" && one !== null ? [one.cert, one.key.reveal()] : one)),
  );
}
