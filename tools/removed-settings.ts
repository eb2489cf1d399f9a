import { readFile } from "node:fs/promises";

import { REMOVED } from "../src/config/removed.ts";

const [BEGIN, END] = ["<!-- Written by `npm run generate` from src/config/removed.ts. -->", "<!-- End -->"];

/** @returns docs/upgrading.md with the list of removed settings */
export async function upgradingGuide(file: URL): Promise<string> {
  const text = await readFile(file, "utf8");
  const [before = "", rest = ""] = text.split(BEGIN);
  const [, after = ""] = rest.split(END);
  const rows = REMOVED.map(
    ({ path, env, instead }) => `| \`${path}\`${env === undefined ? "" : `, \`${env}\``} | ${instead} |`,
  );
  const table = ["| Setting | What to do instead |", "|---|---|", ...rows].join("\n");
  return `${before}${BEGIN}\n\n${table}\n\n${END}${after}`;
}
