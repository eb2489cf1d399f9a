/** How long an open circuit stays open before a probe. Pure. docs/fairness.md explains the rules. */
import type { RateWindow } from "../../usage/rate-window.ts";
import type { OpenCircuit } from "./redis-circuits.ts";

const FIRST_MS = 1_000;
const LONGEST_MS = 10_000;
/** After a longer outage, probes go less often. */
const SHORT_OUTAGE_MS = 5 * 60_000;
const LONG_OUTAGE_MS = 32_000;
/** Probes use at most this part of a window in `PERIOD` of its length: 4 % of a day in three hours. */
const PART = 0.04;
const PERIOD = 1 / 8;
const FIRST_CREDENTIALS_MS = 30_000;
const LONGEST_CREDENTIALS_MS = 15 * 60_000;

/** The time from the start of a probe to the next one. It grows by the time since the circuit opened, so it doubles. */
export function probeIntervalMs(
  { cause, openedAt }: Pick<OpenCircuit, "cause" | "openedAt">,
  now: number,
  windows: readonly RateWindow[],
): number {
  const openMs = now - openedAt;
  if (cause === "credentials") return Math.min(FIRST_CREDENTIALS_MS + openMs, LONGEST_CREDENTIALS_MS);
  if (openMs < SHORT_OUTAGE_MS) return Math.min(FIRST_MS + openMs, LONGEST_MS);
  return Math.max(
    LONG_OUTAGE_MS,
    ...windows.map(({ limit, windowMs }) => (windowMs * PERIOD) / (limit * PART)),
  );
}
