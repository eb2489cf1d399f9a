/**
 * `npm run screenshots` makes the screenshots of the status page (docs/images). It starts a sandbox and a gateway,
 * sends traffic of several apps, makes a part of the API fail, and takes screenshots with Chromium.
 */
import { mkdirSync, statSync } from "node:fs";

import { type Browser, chromium, type Page } from "playwright-core";

import { startGateway } from "../bench/gateway.ts";

const SETTINGS = `
apps:
  - { id: website, weight: 3 }
  - { id: ios-app, weight: 2 }
  - { id: price-report, weight: 1, priority: background, perDay: 300 }
`;
const QUERIES = [
  "/listings?areaId=76&objectType=villa,radhus&limit=20",
  "/listings?areaId=1&minRooms=3&limit=20",
  "/sold?areaId=76&limit=20",
  "/listings?areaId=1&minRooms=3&limit=20&offset=20",
  "/areas?q=Nacka",
  "/listings?areaId=2&maxListPrice=4000000&limit=20",
];
const APPS = ["website", "website", "website", "ios-app", "ios-app", "price-report", "partner-feed"];
/** The duration of the traffic before the first screenshot. */
const TRAFFIC_MS = Number(process.env["TRAFFIC_MS"] ?? 75_000);
const FOLDER = process.env["FOLDER"] ?? "docs/images";

async function main(): Promise<void> {
  const {
    url,
    adminUrl,
    sandbox,
    stop: stopAll,
  } = await startGateway({}, SETTINGS, "silent", "120/1m,10000/1d");
  const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium" });
  try {
    const stop = startTraffic(url);
    await new Promise((resolve) => setTimeout(resolve, TRAFFIC_MS));
    mkdirSync(FOLDER, { recursive: true });
    await photograph(browser, adminUrl, "page-light", { colorScheme: "light", width: 1366, height: 768 });
    await explain(browser, adminUrl);
    sandbox.faults.add({ status: 503, pathPrefix: "/sold" });
    for (let at = 0; at < 6; at++) await ask(`${url}/sold?areaId=${at + 100}`, "website");
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    await photograph(browser, adminUrl, "page-phone-dark", { colorScheme: "dark", width: 390, height: 844 });
    await stop();
  } finally {
    await browser.close();
    await stopAll();
  }
}

/** Sends requests of several apps: mostly the same few queries, sometimes a new one. @returns a function that stops them */
function startTraffic(url: string): () => Promise<void> {
  const state = { isStopped: false };
  let next = 0;
  const run = async (): Promise<void> => {
    while (!state.isStopped) {
      const at = next++;
      const path =
        at % 61 === 0
          ? `/listings?q=street${at}`
          : at % 29 === 0
            ? "/listings?limit=900"
            : (QUERIES[(at * at) % QUERIES.length] ?? "/areas");
      await ask(url + path, APPS[at % APPS.length] ?? "website");
      await new Promise((resolve) => setTimeout(resolve, 40 + 60 * (1 + Math.sin(at / 90))));
    }
  };
  const running = [run(), run(), run()];
  return async () => {
    state.isStopped = true;
    await Promise.all(running);
  };
}

async function ask(url: string, app: string): Promise<void> {
  const response = await fetch(url, { headers: { "X-App-Id": app } });
  await response.arrayBuffer();
}

/** Takes a screenshot of the explanation of a URL. */
async function explain(browser: Browser, url: string): Promise<void> {
  const page = await browser.newPage({ colorScheme: "light", viewport: { width: 1000, height: 900 } });
  await page.goto(url);
  await page.locator("body[data-state=live]").waitFor();
  await page.click("#explain summary");
  await page.fill("#app", "website");
  await page.fill("#url", "http://gateway:8080/listings/?limit=20&areaId=76&objectType=Villa,radhus");
  await page.press("#url", "Enter");
  await page.locator(".facts").waitFor();
  const path = `${FOLDER}/page-explain.png`;
  await page.evaluate("document.activeElement.blur()");
  await page.locator("#explain").screenshot({ path });
  await page.close();
  console.log(`${path}  ${Math.round(statSync(path).size / 1024)} KiB`);
}

interface Picture {
  readonly colorScheme: "light" | "dark";
  readonly width: number;
  readonly height: number;
}

async function photograph(
  browser: Browser,
  url: string,
  name: string,
  { colorScheme, width, height }: Picture,
): Promise<void> {
  const page: Page = await browser.newPage({ colorScheme, viewport: { width, height } });
  await page.goto(url);
  await page.locator("body[data-state=live]").waitFor();
  await page.locator("#chart canvas").waitFor();
  const path = `${FOLDER}/${name}.png`;
  await page.screenshot({ path });
  if (process.argv.includes("--whole"))
    await page.screenshot({ path: `/tmp/${name}-whole.png`, fullPage: true });
  await page.close();
  console.log(`${path}  ${Math.round(statSync(path).size / 1024)} KiB`);
}

await main();
