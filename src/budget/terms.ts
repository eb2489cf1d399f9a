import type { Terms } from "./arbiter.ts";

/** The longest span of time that anything in the terms looks back, in milliseconds. */
export function longestMs({ windows, apps }: Terms): number {
  const perDay = [...apps.values()].some((app) => app.perDay !== null);
  return Math.max(...windows.map(({ windowMs }) => windowMs), perDay ? 86_400_000 : 0);
}
