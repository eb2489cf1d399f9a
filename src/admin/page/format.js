// Numbers, durations and instants as text. The page, the server's sentences and the command line use the same functions.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0, roundingMode: "floor" });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

/**
 * Rounds down, so that half a call is not shown as one.
 * @param {number} number
 */
export const count = (number) => whole.format(number);

/**
 * Large numbers without a fraction, small ones with at most one digit.
 * @param {number} number
 */
export const rate = (number) => (number >= 100 ? whole : tenth).format(number);

/**
 * Rounds down, so that 99.96 % is not shown as all.
 * @param {number} ratio from 0 to 1
 */
export const percent = (ratio) => `${tenth.format(Math.floor(ratio * 1_000) / 10)} %`;

/**
 * @param {number} number
 * @param {string} word
 * @returns for example `1 call`, `2,000 calls`
 */
export const many = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/**
 * @param {readonly string[]} names
 * @param {"and" | "or"} word
 * @returns for example `a, b and c`
 */
export const listed = (names, word) => names.join(", ").replace(/, ([^,]*)$/, ` ${word} $1`);

const UNITS = Object.entries({ d: 86_400_000, h: 3_600_000, min: 60_000, s: 1_000 });

/**
 * @param {number} ms
 * @returns for example `1 d 3 h`, `4 min 5 s`, `250 ms`
 */
export function duration(ms) {
  const at = UNITS.findIndex(([, length]) => ms >= length);
  if (at < 0) return `${Math.round(ms)} ms`;
  const [unit, length] = UNITS[at];
  const [smaller, part] = UNITS[at + 1] ?? ["", length];
  const rest = Math.floor((ms % length) / part);
  return `${Math.floor(ms / length)} ${unit}${rest > 0 ? ` ${rest} ${smaller}` : ""}`;
}

/**
 * The time until something, at least one second.
 * @param {number} ms
 */
export const soon = (ms) => duration(Math.max(1_000, ms));

/**
 * @param {number} at epoch milliseconds
 * @param {number} now
 * @returns for example `14:03:07 UTC`; with the date if that is not today's
 */
export function clockText(at, now = Date.now()) {
  const [date, time] = new Date(at).toISOString().split("T");
  const isToday = new Date(now).toISOString().startsWith(date);
  return `${isToday ? "" : `${date} `}${time.slice(0, 8)} UTC`;
}

/**
 * @param {string} name of a member of an answer
 * @returns for example `calls per hour` for `callsPerHour`, and `wait` for `waitMs`
 */
export const titleOf = (name) =>
  name.replace(/(?<=[a-z])Ms$/, "").replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** @param {string} name of a member of an answer */
export const isInstant = (name) => /^(?:at|since|until)$|(?:At|Since)$/.test(name);

/**
 * The name of a number says what it is: `waitMs` is a duration, `lastAt` an instant.
 * @param {string} name
 * @param {unknown} value anything but a list or an object
 */
export function valueText(name, value) {
  if (value === null || value === undefined || value === "") return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (typeof value !== "number") return JSON.stringify(value);
  if (isInstant(name)) return clockText(value);
  if (name.endsWith("Ms")) return duration(value);
  // A small share is not shown as none.
  return value < 1 ? small.format(value) : rate(value);
}

/**
 * @param {any} problem an answer of the type application/problem+json
 * @returns {string} its title, what is wrong, and what to do, in lines
 */
export function problemText({ status, title, detail, errors = [], problems = [], remedy }) {
  const mistakes = errors.map(({ parameter, value, expected, hint }) => {
    const found = value === undefined ? "" : `found ${JSON.stringify(value)}; `;
    return `  ${parameter}: ${found}expected ${expected}${hint === undefined ? "" : `; ${hint}`}`;
  });
  return [`${status} ${title}`, detail, ...mistakes, ...problems, remedy].filter(Boolean).join("\n");
}
