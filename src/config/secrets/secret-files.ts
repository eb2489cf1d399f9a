/**
 * Reads keys, tokens, passwords and certificates again when their files change. Only the files that the settings in force
 * name are read, not the settings.
 */
import { type Clock, every } from "../../process/clock.ts";
import { type Config, toConfig } from "../config.ts";
import type { UsableSettings } from "../load.ts";
import { formatPath } from "../sources.ts";
import { POLL_MS } from "../watch-file.ts";
import type { PrivateKeys } from "./private-key.ts";
import { Secret, secretsIn } from "./secret.ts";
import { readSecrets, type SecretValues } from "./secrets.ts";

/** The settings that name files, and the content of these files. */
const GROUPS = {
  "upstream.privateKey": ({ privateKey }: SecretValues) => privateKey,
  redis: ({ redisPassword, sentinelPassword, redisPair }) => [redisPassword, sentinelPassword, redisPair],
  apps: ({ appTokens }) => [...appTokens],
  "server.tls": ({ serverPair }) => serverPair,
  "admin.tls": ({ adminPair }) => adminPair,
} satisfies Record<string, (values: SecretValues) => unknown>;

type Log = (message: string, fields: Readonly<Record<string, unknown>>) => void;

export interface SecretFilesOptions {
  readonly first: UsableSettings;
  readonly keys: PrivateKeys;
  readonly clock: Clock;
  /** Reads a file as UTF-8 text, or throws. */
  readonly readFile: (path: string) => string;
  readonly info: Log;
  readonly warn: Log;
}

export interface SecretFiles {
  /** The configuration with the current content of the files. */
  readonly current: () => Config;
  /** The tokens of apps by their ids. A change of the tokens makes a new map. */
  readonly appTokens: () => ReadonlyMap<string, string>;
  /** Calls back when the files have changed that these settings name. */
  readonly onChange: (name: keyof typeof GROUPS, apply: (config: Config) => void) => void;
  /** How many problems the files have. Where they have some, the previous content stays in use. */
  readonly refused: () => number;
  /** Reads the files now. */
  readonly check: () => void;
  /** Follows the files of new settings. */
  readonly use: (settings: UsableSettings) => void;
  readonly close: () => void;
}

/** Follows the files that the settings name. An invalid file changes nothing, and is logged once. */
export function followSecretFiles(options: SecretFilesOptions): SecretFiles {
  const { first, keys, clock, readFile, info, warn } = options;
  let inForce = first;
  let { config, secrets } = first;
  let tokens = revealed(secrets.appTokens);
  let seen = "";
  let refused = 0;
  let keepKey = (): void => undefined;
  const listeners: { readonly name: string; readonly apply: (config: Config) => void }[] = [];

  function check(): void {
    const content = JSON.stringify(secrets.files.map((file) => contentOf(file, readFile)));
    if (content === seen) return;
    seen = content;
    const { values, mistakes } = readSecrets({ ...inForce, readFile }, secrets);
    refused = mistakes.length;
    if (refused > 0) {
      const problems = mistakes.map(({ paths, says }) => `${paths.map(formatPath).join(", ")}: ${says}`);
      warn("A file with a secret or certificate cannot be used. The previous content stays in use.", {
        problems,
      });
    }
    apply(values);
  }

  function apply(values: SecretValues): void {
    const changed = Object.entries(GROUPS).flatMap(([name, contentIn]) =>
      textOf(contentIn(secrets)) === textOf(contentIn(values)) ? [] : [name],
    );
    secrets = values;
    config = toConfig(inForce.settings, values, inForce.constants);
    if (changed.length === 0) return;
    tokens = revealed(values.appTokens);
    for (const secret of secretsIn(config)) keys.mask(secret);
    const { privateKey, previousKeyForMs } = config.upstream;
    if (keys.replace(privateKey)) {
      keepKey();
      keepKey = clock.after(previousKeyForMs, keys.forgetPrevious);
    }
    info("Files with secrets or certificates have changed. The new content is in use.", {
      settings: changed,
    });
    for (const listener of listeners) if (changed.includes(listener.name)) listener.apply(config);
  }

  return {
    current: () => config,
    appTokens: () => tokens,
    onChange: (name, onChange) => void listeners.push({ name, apply: onChange }),
    refused: () => refused,
    check,
    use(settings) {
      inForce = settings;
      apply(settings.secrets);
    },
    close: every(clock, POLL_MS, check),
  };
}

function contentOf(file: string, readFile: (path: string) => string): string {
  try {
    return readFile(file);
  } catch (error) {
    return String(error);
  }
}

function revealed(secrets: ReadonlyMap<string, Secret>): ReadonlyMap<string, string> {
  return new Map([...secrets].map(([id, secret]) => [id, secret.reveal()]));
}

/** @returns a text for comparison. It contains the secrets. */
function textOf(value: unknown): string {
  if (value instanceof Secret) return value.reveal();
  const parts = typeof value === "object" && value !== null ? Object.values(value).map(textOf) : value;
  return JSON.stringify(parts);
}
