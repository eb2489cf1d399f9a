/** The status page and the pages for app developers in a real browser. */
import type { Browser, BrowserContextOptions, Dialog, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";

import { expectAccessible, startChromium } from "../support/chromium.ts";
import { createLeapingClock } from "../support/stepping-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

const TOKEN = "token-of-this-test-only-0123456789abcdef";
const SETTINGS = "apps: [{ id: web, weight: 3, perDay: 400 }]";
/** A browser may take its time on a busy machine. */
const PATIENCE_MS = 20_000;

let browser: Browser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

/** @returns the page, the errors of its scripts, and what its policy forbade */
async function open(url: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options);
  onTestFinished(() => context.close());
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (/Content Security Policy|Uncaught/.test(message.text())) errors.push(message.text());
  });
  await page.goto(url);
  return { page, errors };
}

async function isLive(page: Page): Promise<void> {
  await page.locator("body[data-state=live]").waitFor();
}

/** Waits until an element shows a text. */
async function shows(page: Page, selector: string, text: string | RegExp): Promise<void> {
  await page.locator(selector).filter({ hasText: text }).first().waitFor();
}

/** Presses a button and answers the browser's dialogs. @returns their texts: the question, and what was done */
async function press(page: Page, name: string, answer: "accept" | "dismiss" = "accept"): Promise<string[]> {
  const texts: string[] = [];
  const { promise: isDone, resolve } = Promise.withResolvers<void>();
  const onDialog = async (dialog: Dialog): Promise<void> => {
    texts.push(dialog.message());
    await dialog[answer]();
    if (dialog.type() === "alert" || answer === "dismiss") resolve();
  };
  page.on("dialog", (dialog) => void onDialog(dialog));
  await page.getByRole("button", { name, exact: true }).click();
  await isDone;
  page.removeAllListeners("dialog");
  return texts;
}

async function ask(gateway: TestGateway, times: number, path: string, app = "web"): Promise<void> {
  for (let at = 0; at < times; at++) await gateway.get(path, { headers: { "x-app-id": app } });
}

describe("the status page", () => {
  it("shows the expected share of out-of-date answers, with fixed lifetimes beside it", async () => {
    const clock = createLeapingClock();
    const gateway = await startGateway({
      clock,
      env: { CACHE_LIFETIMES: "learned" },
    });
    const { page } = await open(gateway.adminUrl);
    await shows(page, "#tiles", /Out of date–not known yet/);
    for (let nth = 0; nth < 40; nth++) {
      await gateway.get("/listings?areaId=76&limit=10");
      gateway.sandbox.revise();
      clock.leap(60_000);
    }
    await shows(
      page,
      "#tiles",
      /Out of date[\d.]+ %.*; [\d.]+ % if lifetimes were fixed; half of it costs [\d.]+ times the calls/,
    );
  });

  it("shows who is hurt, the budget and what was saved, and goes on by itself", async () => {
    const gateway = await startGateway({ settings: SETTINGS, env: { BUDGET: "20/1h,1000/1d" } });
    const { page, errors } = await open(gateway.adminUrl, { viewport: { width: 1366, height: 768 } });
    await isLive(page);
    await shows(page, "#apps .empty", "No app has sent a request");
    await shows(page, "#scope", "one process");

    await ask(gateway, 9, "/listings?areaId=76&limit=10");
    await ask(gateway, 1, "/listings?areaId=76&limit=10&offset=10", "feed");
    await ask(gateway, 2, "/listings?limit=900", "feed");
    await shows(page, "#apps tbody tr", /^webweight 3is answered9.* left1399 left$/);
    await shows(page, "#apps tbody tr", /^feednot listedis answered12/);
    await shows(page, "#budget .window:nth-child(1)", /1h.*1[89] of 20 left.*1 back in 59 min/);
    await shows(page, "#tiles", /Needed no call9\d(\.\d)? %/);
    await shows(page, ".u-legend", "Cached");
    expect(await page.locator("#chart canvas").count()).toBe(1);
    expect(await page.evaluate("document.documentElement.scrollHeight")).toBe(768);
    await page.selectOption("#span", "24h");
    for (const summary of await page.locator("summary").all()) await summary.click();
    await shows(page, "#saved", /in the cache/);
    await shows(page, "#asked", "listings?areaId=76&limit=10&offset=0");
    await shows(page, "#slowest", /listings\?areaId=76.* ms/);
    await shows(page, "#problems", /invalid-query.*2/);
    await expectAccessible(page);

    gateway.sandbox.faults.add({ status: 503 });
    for (const area of [1, 2, 3, 4]) await ask(gateway, 1, `/sold?areaId=${area}`);
    await shows(page, "#sentences .bad", /^Problemweb gets 50[23] since .*the API for sold records/);
    await shows(page, "#apps tbody tr:nth-child(1)", /^webweight 3gets 50[23]since .* UTC4upstream-/);
    await shows(page, "#upstream tbody tr", /^sold.*status 503\d\d:\d\d:\d\d UTC\d/);
    await shows(page, "#tiles .bad", "Paused");
    expect(errors).toEqual([]);
  });

  it("explains a URL, and purges and reloads when that is confirmed; the browser asks for the token", async () => {
    const gateway = await startGateway({ settings: SETTINGS, env: { ADMIN_TOKEN: TOKEN } });
    const httpCredentials = { username: "me", password: TOKEN };
    const { page, errors } = await open(gateway.adminUrl, { httpCredentials });
    await isLive(page);

    await ask(gateway, 2, "/areas?q=Nacka&limit=3");
    await page.click("#explain summary");
    await page.fill("#url", `${gateway.url}/areas/?limit=3.0&q=Nacka`);
    await page.fill("#app", "web");
    await page.press("#url", "Enter");
    await shows(page, ".facts", /areas\?q=Nacka&limit=3.*Cached in memory, .* old, fresh for/);
    await shows(page, ".facts", /the app web \(listed\) is answered from the cache\. It costs no call\./);
    await shows(page, "#history", /web.*miss.*Nothing usable was cached/);

    expect(await press(page, "Purge this answer…", "dismiss")).toEqual([
      expect.stringMatching(/^Purge .*areas.*q=Nacka\? .*when an app asks for it, which costs a call\.$/),
    ]);
    expect((await gateway.get("/areas?q=Nacka&limit=3")).headers["cache-status"]).toContain("; hit");
    expect(await press(page, "Purge this answer…")).toEqual([
      expect.stringContaining("out of date"),
      expect.stringMatching(/^Purged the answer .*areas\?q=Nacka/),
    ]);
    await shows(page, ".facts", /Cached in memory.*purged/);
    expect((await gateway.get("/areas?q=Nacka&limit=3")).headers["cache-status"]).toContain("fwd=stale");
    expect(await press(page, "Purge all…")).toEqual([
      expect.stringMatching(/^Purge all answers\? .*which costs a call\.$/),
      "Purged all answers. Purged answers are stale until they are refreshed.",
    ]);
    expect((await gateway.get("/areas?q=Nacka&limit=3")).headers["cache-status"]).toContain("fwd=stale");
    const [, reloaded] = await press(page, "Reload…");
    expect(reloaded).toBe("The settings are in force. Changed: nothing.");

    gateway.sandbox.faults.add({ status: 429, retryAfter: "300", times: 1 });
    await gateway.get("/areas?q=paused");
    const [, tried] = await press(page, "Try the API now…");
    expect(tried).toBe("The next call tries api/all.");
    expect((await gateway.get("/areas?q=tried")).status).toBe(200);

    const headers = "-H 'X-App-Id: feed' -H 'Accept: application/vnd.propertyservice-v2+json'";
    await page.fill("#url", `curl -s ${headers} "${gateway.url}/areas/?q=Nacka"`);
    await page.press("#url", "Enter");
    await shows(page, ".facts", /\{v2:areas\?q=Nacka\}.*the app feed /);
    await page.fill("#url", "/areas?limit=many");
    await page.press("#url", "Enter");
    await shows(page, "#explanation .bad", /The query is invalid[^]*limit/);
    expect(errors).toEqual([]);
  });

  it("says that its numbers are old while the gateway is away, and goes on after a restart", async () => {
    const before = await startGateway();
    const { page } = await open(before.adminUrl);
    await isLive(page);
    await before.stop();
    await page.locator("body[data-state=disconnected]").waitFor();
    await shows(page, "#connection", /Disconnected since \d\d:\d\d:\d\d UTC: the numbers below are old/);
    const after = await startGateway({ env: { ADMIN_PORT: new URL(before.adminUrl).port } });
    await isLive(page);
    await ask(after, 3, "/areas?q=Nacka");
    await shows(page, "#apps", /web.*3/);
  });

  it("fits on a phone, in the dark, reaches every app, and can be used with the keyboard", async () => {
    const gateway = await startGateway({ settings: SETTINGS });
    await ask(gateway, 2, "/listings?areaId=76&objectType=villa,radhus&minRooms=3&limit=10", "a".repeat(64));
    for (let at = 0; at < 20; at++) await ask(gateway, 1, "/areas?q=Nacka", `app-${at}`);
    gateway.sandbox.faults.add({ status: 500 });
    await ask(gateway, 2, "/sold/1", "app-1");
    const { page } = await open(gateway.adminUrl, {
      viewport: { width: 360, height: 740 },
      colorScheme: "dark",
    });
    await isLive(page);
    await page.click("text=13 more");
    expect(await page.locator("#apps tbody tr").count()).toBe(21);
    const width = await page.evaluate<number>("document.documentElement.scrollWidth");
    expect(width).toBeLessThanOrEqual(360);
    // Refused and Failed can be read without scrolling. The table ends 29 pixels before the edge.
    const ofFailed = "document.querySelector('#apps th:nth-child(4)').getBoundingClientRect().right";
    expect(await page.evaluate<number>(ofFailed)).toBeLessThanOrEqual(331);
    expect(await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")).toBe(
      "rgb(18, 18, 17)",
    );
    await expectAccessible(page);
    await page.click("text=Most requested");
    const query = page.locator("#asked a", { hasText: "villa" });
    await query.focus();
    await page.keyboard.press("Enter");
    await shows(page, ".facts", "objectType=villa,radhus");
    expect(await page.evaluate("document.activeElement.id")).toBe("url");
  });
});

it.each(["light", "dark"] as const)(
  "the callers' pages are accessible in %s, fit a phone, and have the address in their examples",
  async (colorScheme) => {
    const gateway = await startGateway();
    for (const path of ["/", "/docs"]) {
      const { page, errors } = await open(gateway.url + path, {
        colorScheme,
        viewport: { width: 390, height: 844 },
      });
      await expectAccessible(page);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
      if (path === "/docs") await shows(page, "pre", `curl -i -H 'x-app-id: my-app' '${gateway.url}/areas`);
      expect(errors).toEqual([]);
    }
  },
);
