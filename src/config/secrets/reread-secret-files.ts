/**
 * The settings in force. Keys, tokens, passwords and certificates are read again when their files change: only the files that
 * the settings in force name, not the settings. Code that needs a value that can change calls `current()` at each use.
 */
import { type Clock, every } from "../../process/clock.ts";
import type { Observer } from "../../telemetry/events.ts";
import { type Config, toConfig } from "../config.ts";
import type { UsableSettings } from "../load.ts";
import { formatPath } from "../sources.ts";
import type { PrivateKeys } from "./key-rotation.ts";
import { type SecretSources, readSecrets, type SecretValues } from "./read-secret-files.ts";
import { secretsIn } from "./secret.ts";

/** How often files are read. Watching directories is not reliable: network file systems send no events. */
export const REREAD_EVERY_MS = 1_000;

/** The file of this setting is read at the start only. */
const FIXED = "upstream.caFile";

export interface LiveSettingsOptions
  extends Pick<SecretSources, "readFile">, Pick<Observer, "info" | "warn"> {
  readonly first: UsableSettings;
  readonly keys: PrivateKeys;
  readonly clock: Clock;
}

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createLiveSettings({ first, keys, clock, readFile, info, warn }: LiveSettingsOptions) {
  let inForce = first;
  let { config } = first;
  let secrets: SecretValues = first.secrets;
  let problems: string[] = [];
  let keepPreviousKey = (): void => undefined;
  const listeners: { readonly below: string; readonly apply: (config: Config) => void }[] = [];

  /** Reads the files now. An invalid file changes nothing, and is logged once. */
  function check(): void {
    const { values, mistakes } = readSecrets({ ...inForce, readFile });
    const known = problems.join();
    problems = mistakes.map(({ path = [], says }) => `${formatPath(path)}: ${says}`);
    if (problems.length > 0 && problems.join() !== known)
      warn("A file with a secret or certificate cannot be used. The previous content stays in use.", {
        problems,
      });
    apply(inForce, new Map([...secrets, ...values]));
  }

  function apply(settings: UsableSettings, values: SecretValues): void {
    const changed = [...values]
      .filter(([path, secret]) => path !== FIXED && secret.reveal() !== secrets.get(path)?.reveal())
      .map(([path]) => path);
    if (changed.length === 0 && settings === inForce) return;
    inForce = settings;
    secrets = values;
    config = toConfig(settings.settings, values, settings.constants);
    if (changed.length === 0) return;
    for (const secret of secretsIn(config)) keys.mask(secret);
    const { privateKey, previousKeyForMs } = config.upstream;
    if (keys.replace(privateKey)) {
      keepPreviousKey();
      keepPreviousKey = clock.after(previousKeyForMs, () => keys.forgetPrevious());
    }
    info("Files with secrets or certificates have changed. The new content is in use.", {
      settings: changed,
    });
    for (const { below, apply: renew } of listeners)
      if (changed.some((path) => path.startsWith(below))) renew(config);
  }

  return {
    current: (): Config => config,
    /** Calls back when files have changed that the settings below this section name. */
    onChange: (section: string, renew: (config: Config) => void): void =>
      void listeners.push({ below: `${section}.`, apply: renew }),
    /** @returns how many problems the files have. Where they have some, the previous content stays in use. */
    refused: (): number => problems.length,
    check,
    /** Brings other settings into force. */
    use: (settings: UsableSettings): void => apply(settings, settings.secrets),
    close: every(clock, REREAD_EVERY_MS, check),
  };
}
