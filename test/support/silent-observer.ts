import type { Observer } from "../../src/telemetry/events.ts";

const ignore = (): void => undefined;

/** An observer that records nothing. */
export const SILENT: Observer = {
  request: ignore,
  upstreamCall: ignore,
  refreshed: ignore,
  warmed: ignore,
  outOfOrder: ignore,
  backInOrder: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
};
