import { settingsSchema } from "./config-schema.ts";
import { VARIABLES } from "./environment.ts";
import { nearest } from "../nearest.ts";
import { SECRET_TEXT } from "./secret.ts";
import { type SettingFault, settingsOf } from "./setting-check.ts";
import { formatPath } from "./setting-path.ts";
import type { SettingSources } from "./setting-sources.ts";

const LONGEST_FOUND = 80;

/** Says in one line what is wrong: where, which setting, what was found, what was expected. */
export function describeFault(fault: SettingFault, sources: SettingSources): string {
  const name = formatPath(fault.path);
  const at = `${sources.nameOf(fault.path)}: ${name}`;
  switch (fault.kind) {
    case "missing": {
      const variable = VARIABLES.find((candidate) => candidate.path.join(".") === name)?.name;
      if (!variable) return `${at}: missing; expected ${fault.expected}`;
      return `${name} is missing: set ${variable}, or ${name} in the configuration file; expected ${fault.expected}`;
    }
    case "unknown":
      return `${at}: unknown setting; ${hint(fault)}`;
    case "wrong": {
      const found = fault.meta.secret ? SECRET_TEXT : describeValue(fault.value);
      return `${at}: found ${found}; expected ${fault.meta.expected}`;
    }
  }
}

/** A value in one line: quoted, shortened, and without what a URL may carry in secret. */
export function describeValue(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a section";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "string") return typeof value;
  // Also where the scheme was left out: `user:password@host`.
  const shown = value.replace(/^(.*?:\/\/)?.*@/s, `$1${SECRET_TEXT}@`).replace(/\?.*$/s, "?…");
  return JSON.stringify(shown.length > LONGEST_FOUND ? `${shown.slice(0, LONGEST_FOUND)}…` : shown);
}

function hint({ path, siblings }: Extract<SettingFault, { kind: "unknown" }>): string {
  const key = String(path.at(-1));
  const section = formatPath(path.slice(0, -1));
  const near = nearest(key, siblings);
  if (near) return `did you mean ${section === "" ? near : `${section}.${near}`}?`;
  const elsewhere = settingsOf(settingsSchema)
    .filter((setting) => setting.path.at(-1) === key)
    .map((setting) => setting.path.join("."));
  if (elsewhere.length > 0) return `did you mean ${elsewhere.join(" or ")}?`;
  return `known ${section === "" ? "at the top" : `in ${section}`}: ${siblings.join(", ")}`;
}
