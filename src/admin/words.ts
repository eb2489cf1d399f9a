/** Numbers, durations and instants in words, for the sentences that the server sends. */

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** @returns a duration for people: `1 d 3 h`, `4 min 5 s`, `250 ms` */
export function inWords(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const parts: string[] = [];
  let rest = ms;
  for (const [unit, length] of UNITS) {
    const number = Math.floor(rest / length);
    rest -= number * length;
    if (number > 0) parts.push(`${number} ${unit}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, 2).join(" ");
}

/** @returns for example `1 call`, `2,000 calls` */
export function many(number: number, word: string): string {
  return `${Math.floor(number).toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

/** @returns for example `14:03:07 UTC`; with the date if that is not today's */
export function clockText(at: number, now: number): string {
  const [date = "", time = ""] = new Date(at).toISOString().split("T");
  const isToday = new Date(now).toISOString().startsWith(date);
  return `${isToday ? "" : `${date} `}${time.slice(0, 8)} UTC`;
}

/** Rounds down, so that 99.6 % is not shown as all. */
export function percentText(part: number, all: number): string {
  return `${all === 0 ? 0 : Math.floor((part / all) * 100)} %`;
}

/** @returns for example `a, b and c` */
export function listed(names: readonly string[], word: "and" | "or"): string {
  return names.join(", ").replace(/, ([^,]*)$/, ` ${word} $1`);
}

const WAITS: Readonly<Record<string, string>> = {
  budget: "the budget",
  share: "the app's share",
  "per-day": "the app's daily limit",
  "cool-off": "a pause that the API needs",
  "redis-away": "Redis, which does not answer",
};

/** @param why the reason of a wait for a permit */
export function waitText(why: string | null): string {
  return WAITS[why ?? ""] ?? why ?? "a call";
}
