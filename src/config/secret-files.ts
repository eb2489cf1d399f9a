/**
 * Passwords, certificates and tokens in files, read again when the files change. The private key has its own file:
 * `private-key.ts`.
 */
import type { Clock } from "../process/clock.ts";
import type { CertificatePair } from "./certificates.ts";
import type { Config } from "./config.ts";
import { type FollowedFiles, followFiles } from "./followed-files.ts";
import type { SettingsSource } from "./load.ts";
import type { PrivateKeys } from "./private-key.ts";
import type { Settings } from "./schema.ts";
import { secretsIn } from "./secret.ts";

/** Settings that name files, and what the configuration holds of them. */
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

type Say = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface SecretFilesOptions {
  readonly source: SettingsSource;
  readonly keys: Pick<PrivateKeys, "mask">;
  readonly clock: Clock;
  readonly info: Say;
  readonly warn: Say;
}

export interface SecretFiles {
  /** The configuration with what the files hold now. Other settings are those of the last time a file changed. */
  readonly current: () => Config;
  /** The tokens of apps by their ids; another map when they have changed. */
  readonly appTokens: () => ReadonlyMap<string, string>;
  /** @param name `redis`, `server.tls`, `admin.tls`: what is called when its files have changed */
  readonly onChange: (name: string, apply: (config: Config) => void) => void;
  /** The settings or the files may have changed. */
  readonly check: () => void;
  readonly close: () => void;
}

/** Follows the files that the settings name. A file that cannot be used changes nothing, and is logged once. */
export function followSecretFiles({ source, keys, clock, info, warn }: SecretFilesOptions): SecretFiles {
  let config = source.first.config;
  let tokens = appTokensOf(config);
  let said = "";
  let followed: { readonly paths: readonly string[]; readonly files: FollowedFiles } | undefined;
  const listeners: { readonly name: string; readonly apply: (config: Config) => void }[] = [];

  function check(): void {
    const { usable, problems } = source.reread();
    const trouble = problems.join("; ");
    if (usable === undefined) {
      if (trouble !== said) warn("Passwords and certificates stay as they were.", { problems });
      said = trouble;
      return;
    }
    said = "";
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

/** For comparing, with the secrets themselves. */
function textOf(content: ReturnType<FileKind["content"]>): string {
  return JSON.stringify(
    content.map((one) => (typeof one === "object" && one !== null ? [one.cert, one.key.reveal()] : one)),
  );
}
