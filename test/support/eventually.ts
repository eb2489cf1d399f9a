import { vi } from "vitest";

/**
 * Calls a function again and again until it does not throw.
 * @returns what it returned. The limit only ends a test that fails.
 */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: 30_000 });
}
