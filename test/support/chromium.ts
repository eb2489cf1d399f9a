/** Chromium for the tests: the one that is installed, driven by playwright-core. */
import { existsSync } from "node:fs";

import axe from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";
import { expect } from "vitest";

/** `test/run.ts` finds or installs it. */
const CHROMIUM = "chromium";

export const startChromium = (): Promise<Browser> => chromium.launch({ executablePath: pathOf(CHROMIUM) });

function pathOf(command: string): string {
  const folder = (process.env["PATH"] ?? "").split(":").find((path) => existsSync(`${path}/${command}`));
  if (folder === undefined) throw new Error(`${command} is not on the path: npm test installs it`);
  return `${folder}/${command}`;
}

/**
 * Fails with what axe-core finds wrong for people who use a screen reader or a keyboard.
 * @param part a selector
 */
export async function expectAccessible(page: Page, part = "body"): Promise<void> {
  // By the protocol of the developer tools: the page's policy allows no further script.
  await page.evaluate(axe.source);
  const violations = await page.evaluate<string[]>(
    `axe.run(${JSON.stringify(part)}).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`,
  );
  expect(violations).toEqual([]);
}
