// Numbers, times and codes in words.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (number) => whole.format(number);
export const rate = (number) => (number >= 100 ? whole : tenth).format(number);
export const percent = (part) => (part > 0 && part < 0.005 ? "< 1 %" : percentText(part));
const percentText = (part) =>
  `${part > 0.99 && part < 1 ? tenth.format(Math.floor(part * 1000) / 10) : whole.format(part * 100)} %`;
/** "1 call", "2 calls" */
export const many = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

/** The time until something, rounded up to at least one second. */
export const soon = (ms) => duration(Math.max(1_000, ms));

/** A duration: "250 ms", "4 s", "2 min 5 s", "3 h". */
export function duration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const parts = [];
  let rest = ms;
  for (const [unit, length] of UNITS) {
    const number = Math.floor(rest / length);
    rest -= number * length;
    if (number > 0) parts.push(`${number} ${unit}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, ms < 600_000 ? 2 : ms < 86_400_000 ? 2 : 1).join(" ");
}

/** The time of day, and the day if it is not today. */
export function clockTime(at) {
  const date = new Date(at);
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString()
    ? time
    : `${date.toLocaleDateString("en-GB")} ${time}`;
}

/** "at 02:13:04, 14 min ago" */
export const since = (at, now) => `${clockTime(at)} (${duration(Math.max(1_000, now - at))})`;
export const ago = (at, now) => (now - at < 1_000 ? "now" : `${duration(now - at)} ago`);

const CAUSES = {
  "too-many-requests": "it answered 429",
  unavailable: "it answered 503",
  failing: "half of the latest calls failed",
  unreachable: "it cannot be reached",
  credentials: "it refuses our credentials",
};
export const causeText = (cause) => CAUSES[cause] ?? cause;

const WAITS = {
  budget: "the budget",
  reserved: "the budget",
  share: "the app's share",
  "per-day": "the app's daily limit",
  "cool-off": "a pause that the API needs",
  joining: "the shared budget, which is not known yet",
};
export const waitText = (why) => WAITS[why] ?? why;

const SAVINGS = {
  hit: ["Cached", "the answer was in the cache"],
  collapsed: ["Joined", "it joined the call of another request"],
  folded: ["Folded", "the page was cut from a cached block"],
  past_end: ["Past the end", "a cached block says that there are no more records"],
  refused: ["Mistakes", "the request had a mistake, and was refused without a call"],
};
export const savingText = (reason) => SAVINGS[reason] ?? [reason, ""];

const MODES = {
  alone: "one process decides",
  shared: "shared by all replicas through Redis",
  joining: "not known yet: waiting for Redis",
  degraded: "Redis does not answer: this process spends only the part that Redis keeps for it",
};
export const modeText = (mode) => MODES[mode] ?? mode;
