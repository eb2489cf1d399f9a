/** The figures of a soak, as tables for people. */
import type { SoakReport } from "./soak.ts";

const number = (value: number): string => Math.round(value).toLocaleString("en");

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(heads), `|${heads.map(() => "---|").join("")}`, ...rows.map(line)].join("\n");
}

/** The report as Markdown, which is readable on a terminal too. */
export function reportText(report: SoakReport): string {
  const { startedAt, minutes, seed, statuses } = report;
  const byStatus = Object.entries(statuses)
    .map(([status, count]) => `${status === "0" ? "no answer" : status}: ${number(count)}`)
    .join(", ");
  const faults = Object.entries(report.faults)
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
  const totals = [
    ["Requests", number(report.requests)],
    ["By status", byStatus],
    ["Answers compared with the upstream's", number(report.compared)],
    ["… older than five seconds", number(report.aged)],
    ["Wrong", number(report.wrong)],
    ["Windows over the budget", number(report.over)],
    ["Hung", number(report.hung)],
    ["Lost with a killed replica", number(report.lost)],
    ["Longest wait", `${number(report.longestWaitMs)} ms`],
    ["Calls to the upstream", number(report.calls)],
    ["Calls per 1,000 requests", number(report.callsPer1000)],
  ];
  const windows = report.windows.map(({ who, limit, windowMs, most }) => [
    who,
    `${windowMs / 1_000} s`,
    number(limit),
    number(most),
  ]);
  const memory = report.memory.map(({ name, minutes, lastMiB, slopeMiBPerMinute }) => [
    name,
    minutes.toFixed(1),
    number(lastMiB),
    slopeMiBPerMinute === null ? "restarted too often to tell" : slopeMiBPerMinute.toFixed(2),
  ]);
  return [
    `${minutes.toFixed(1)} minutes from ${startedAt}, seed ${seed}, Node ${process.version}.`,
    table(["Figure", "Value"], totals),
    table(["Calls at the upstream", "Window", "Limit", "Most in any window"], windows),
    table(["Memory", "Longest life, minutes", "At its end, MiB", "Growth, MiB a minute"], memory),
    `Faults: ${faults}.${report.isSmallDisk ? "" : " The full disk was left out: nothing may be mounted here."}`,
    ...report.faultFailures.map((failure) => `Not carried out: ${failure}`),
    ...report.examples,
    "",
  ].join("\n\n");
}
