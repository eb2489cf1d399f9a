import type { Window } from "./windows.ts";

/**
 * For how many replicas something is held back in a window.
 * @param held by window, as it was learnt
 * @param heldIn the windows by then
 * @param windows the windows now: where they are others, because the settings have changed, it is the most of any
 */
export function heldOf(
  window: Window,
  held: readonly number[],
  heldIn: readonly Window[],
  windows: readonly Window[],
): number {
  return heldIn === windows ? (held[windows.indexOf(window)] ?? 0) : Math.max(0, ...held);
}
