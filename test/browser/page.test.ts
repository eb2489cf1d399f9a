/** The status page in a real browser. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";

import { expectAccessible, startChromium } from "../support/chromium.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

const TOKEN = "token-of-this-test-only-0123456789abcdef";
const SETTINGS = "apps: [{ id: web, weight: 3 }]";
/** A browser may take its time on a busy machine. */
const PATIENCE_MS = 20_000;

let browser: Browser;
beforeAll(async () => {
  browser = await startChromium();
});
afterAll(() => browser.close());

interface Opened {
  readonly page: Page;
  /** Errors of the scripts, and what the policy of the page forbade. */
  readonly errors: string[];
}

async function open(url: string, options: BrowserContextOptions = {}): Promise<Opened> {
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

async function ask(gateway: TestGateway, times: number, path: string, app = "web"): Promise<void> {
  for (let at = 0; at < times; at++) await gateway.get(path, { headers: { "x-app-id": app } });
}

describe("the status page", () => {
  it("answers the five questions of an operator, and goes on by itself", async () => {
    const gateway = await startGateway({
      settings: SETTINGS,
      env: { BUDGET: "20/1h,1000/1d", PAGES_FOLD: "on" },
    });
    const { page, errors } = await open(gateway.adminUrl);
    await isLive(page);
    await shows(page, "#apps .empty", "No app has sent a request");
    await shows(page, "#verdict", "All is well");
    await shows(page, "#scope", "one process");

    await ask(gateway, 9, "/listings?areaId=76&limit=10");
    await ask(gateway, 1, "/listings?areaId=76&limit=10&offset=10", "feed");
    await ask(gateway, 2, "/listings?limit=900", "feed");

    // Who uses us most?
    await shows(page, "#apps tbody tr:nth-child(1)", /^web.*listed, weight 3.*9/);
    await shows(page, "#apps tbody tr:nth-child(2)", /^feed.*not listed/);
    // How much budget is left, and when does it come back?
    await shows(page, "#budget .window:nth-child(1)", /1h.*1[89] of 20 left.*1 back in 59 min/);
    // What did we save?
    await shows(page, "#tiles", /Needed no call9\d %\d+ of 12 requests/);
    await shows(page, "#saved", /Cached.*Mistakes/);
    // What is asked, and what went wrong?
    await shows(page, "#asked", "listings?areaId=76&limit=10&offset=0");
    await shows(page, "#slowest", /listings\?areaId=76.* ms/);
    await shows(page, "#problems", /invalid-query.*2/);
    await shows(page, "#legend", "Cached");
    expect(await page.locator("#chart canvas").count()).toBe(1);
    await expectAccessible(page);

    // Is the API ill, and since when?
    gateway.sandbox.faults.add({ status: 503 });
    for (const area of [1, 2, 3, 4]) await ask(gateway, 1, `/sold?areaId=${area}`);
    await shows(
      page,
      "#verdict .bad",
      /for sold records have been paused since \d\d:\d\d:\d\d.*half of the latest/,
    );
    await shows(page, "#upstream", /Sold records.*failssince \d\d:\d\d/);
    await shows(page, "#tiles .bad", /Pausedsince/);
    expect(errors).toEqual([]);
  });

  it("explains a caller's curl line, and purges when that is confirmed, in a session", async () => {
    const gateway = await startGateway({ settings: SETTINGS, env: { ADMIN_TOKEN: TOKEN } });
    const { page, errors } = await open(gateway.adminUrl);
    await page.fill("#token", "wrong");
    await page.click("#login button");
    await shows(page, "#login-message", "token is wrong");
    await expectAccessible(page, "#login");
    await page.fill("#token", TOKEN);
    await page.press("#token", "Enter");
    await isLive(page);
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", secure: false });

    await ask(gateway, 2, "/areas?q=Nacka&limit=3");
    const curl = `curl -s -H 'X-App-Id: web' "${gateway.url}/areas/?limit=3.0&q=Nacka"`;
    await page.fill("#url", curl);
    await page.press("#url", "Enter");
    const explanation = page.locator("#explanation");
    await shows(page, ".facts", "areas?q=Nacka&limit=3");
    expect(await explanation.textContent()).toMatch(/Cachedin memory, .* old, fresh for/);
    expect(await explanation.textContent()).toMatch(
      /It costs no call and no wait, for the app web \(listed\)/,
    );
    await shows(page, "#history", /web.*miss.*Nothing usable was cached/);

    await page.getByRole("button", { name: "Purge this answer…" }).click();
    await shows(page, "#purge-what", "areas?q=Nacka&limit=3");
    await expectAccessible(page, "#purge-dialog");
    await page.getByRole("button", { name: "Keep them" }).click();
    expect((await gateway.get("/areas?q=Nacka&limit=3")).headers["cache-status"]).toContain("; hit");
    await page.getByRole("button", { name: "Purge this answer…" }).click();
    await page.getByRole("button", { name: "Purge", exact: true }).click();
    await shows(page, "#purge-message", "Purged: areas?q=Nacka&limit=3. It hit 1 answer in memory");
    await shows(page, ".facts", /Cachedin memory.*purged/);
    expect((await gateway.get("/areas?q=Nacka&limit=3")).headers["cache-status"]).toContain("fwd=stale");

    await page.fill("#url", "/areas?limit=many");
    await page.press("#url", "Enter");
    await shows(page, "#explanation .bad", /The query is invalid: limit/);
    gateway.sandbox.faults.add({ status: 503, retryAfter: "60" });
    await ask(gateway, 1, "/sold?areaId=8");
    await page.fill("#url", "/sold?areaId=9");
    await page.press("#url", "Enter");
    await shows(
      page,
      ".facts",
      /A request nowis refused for the app .*: upstream-unavailable\. A call would/,
    );
    await page.getByRole("button", { name: "Log out" }).click();
    await page.locator("body[data-state=login]").waitFor();
    expect(errors).toEqual([]);
  });

  it("survives a restart of the gateway, with its session", async () => {
    const before = await startGateway({ env: { ADMIN_TOKEN: TOKEN } });
    const { page } = await open(before.adminUrl);
    await page.fill("#token", TOKEN);
    await page.press("#token", "Enter");
    await isLive(page);
    await before.stop();
    await page.locator("body[data-state=disconnected]").waitFor();
    await shows(page, "#connection", /Disconnected since \d\d:\d\d:\d\d: the numbers below are old/);
    const after = await startGateway({
      env: { ADMIN_TOKEN: TOKEN, ADMIN_PORT: new URL(before.adminUrl).port },
    });
    await isLive(page);
    await ask(after, 3, "/areas?q=Nacka");
    await shows(page, "#asked", /areas\?q=Nacka.*3/);
  });

  it("fits on a phone, in the dark, and can be used with the keyboard", async () => {
    const gateway = await startGateway({ settings: SETTINGS });
    await ask(gateway, 2, "/listings?areaId=76&objectType=villa,radhus&minRooms=3&limit=10");
    const { page } = await open(gateway.adminUrl, {
      viewport: { width: 360, height: 740 },
      colorScheme: "dark",
    });
    await isLive(page);
    await shows(page, "#apps", "web");
    const width = await page.evaluate<number>("document.documentElement.scrollWidth");
    expect(width).toBeLessThanOrEqual(360);
    expect(await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")).toBe(
      "rgb(18, 18, 17)",
    );
    await expectAccessible(page);
    const query = page.locator("#asked button");
    await query.focus();
    await page.keyboard.press("Enter");
    await shows(page, ".facts", "objectType=villa,radhus");
    expect(await page.evaluate("document.activeElement.id")).toBe("url");
  });
});

describe("the page of the OpenAPI documents", () => {
  it("sends a caller's request and shows the answer", async () => {
    const gateway = await startGateway();
    const { page, errors } = await open(`${gateway.adminUrl}/docs?of=callers`);
    const areas = page.locator(".opblock").filter({ hasText: "/areas" }).first();
    await areas.locator(".opblock-summary-control").click();
    await areas.getByRole("button", { name: "Try it out" }).click();
    await areas.locator("tr[data-param-name=q] input").fill("Stockholm");
    await areas.getByRole("button", { name: "Execute" }).click();
    await areas.locator(".live-responses-table .response-col_status").filter({ hasText: "200" }).waitFor();
    expect(gateway.sandbox.requests()).toHaveLength(1);
    expect(errors).toEqual([]);
  });
});
