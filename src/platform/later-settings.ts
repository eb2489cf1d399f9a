/**
 * Settings with a fixed name and meaning that this version does not have yet. They are refused when
 * set, because a setting that is silently ignored is believed to work. A name covers all below it.
 */
export const LATER_SETTINGS: ReadonlySet<string> = new Set();

/** Environment variables of the same kind; those of a setting above are covered by it. */
export const LATER_VARIABLES: readonly string[] = ["ADMIN_TOKEN"];
