// Numbers and times in words.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
export const count = (number) => whole.format(number);
export const rate = (number) => (number >= 100 ? whole : tenth).format(number);
/** Rounds down, so that 99.96 % is not shown as all. */
export const percent = (part) => `${tenth.format(Math.floor(part * 1000) / 10)} %`;

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

/** A duration: "250 ms", "4 s", "2 min 5 s". */
export function duration(ms) {
  const at = UNITS.findIndex(([, length]) => ms >= length);
  if (at < 0) return `${Math.round(ms)} ms`;
  const [unit, length] = UNITS[at];
  const [smaller, part] = UNITS[at + 1] ?? ["", length];
  const rest = Math.floor((ms % length) / part);
  return `${Math.floor(ms / length)} ${unit}${rest > 0 ? ` ${rest} ${smaller}` : ""}`;
}

/** The time until something, at least one second. */
export const soon = (ms) => duration(Math.max(1_000, ms));
/** In UTC, as in the sentences and in the log. */
export const clockTime = (at) => new Date(at).toISOString().slice(11, 19);
export const ago = (at, now) => (now - at < 1_000 ? "now" : `${duration(now - at)} ago`);

/** @returns for example "Last answer at" for "lastAnswerAt" and "Mean" for "meanMs" */
export function titleOf(name) {
  const words = name.replace(/Ms$/, "").replaceAll(/[A-Z]/g, (l) => ` ${l.toLowerCase()}`);
  return words[0].toUpperCase() + words.slice(1);
}

/** The name determines the format of a number: "meanMs" is a duration, "lastAt" an instant. */
export function valueText(name, value) {
  if (value === null) return "";
  if (typeof value !== "number") return value;
  if (name.endsWith("Ms")) return duration(value);
  return isInstant(name) ? `${clockTime(value)} UTC` : count(value);
}

export const isInstant = (name) => /^at$|(?:At|Since)$/.test(name);
