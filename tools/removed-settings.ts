import { readFile } from "node:fs/promises";

import { REMOVED } from "../src/config/settings/removed.ts";

const [BEGIN, END] = [
  "<!-- Written by `npm run generate` from src/config/settings/removed.ts. -->",
  "<!-- End -->",
];

const CONSTANT = /^It is always (.*) now; remove it\.$/;

/** @returns docs/upgrading.md with the list of removed settings */
export async function upgradingGuide(file: URL): Promise<string> {
  const text = await readFile(file, "utf8");
  const [before = "", rest = ""] = text.split(BEGIN);
  const [, after = ""] = rest.split(END);
  const [constants, others] = [true, false].map((isConstant) =>
    REMOVED.filter(({ instead }) => CONSTANT.test(instead) === isConstant),
  );
  const list = constants
    ?.map(({ instead, ...of }) => `${named(of)} (${CONSTANT.exec(instead)?.[1]})`)
    .join(", ");
  const rows = others?.map(({ instead, ...of }) => `- ${named(of)}: ${instead}`) ?? [];
  return `${before}${BEGIN}\n\nRemove these, which are constants now: ${list}.\n\n${rows.join("\n")}\n\n${END}${after}`;
}

function named({ path, env }: { readonly path: string; readonly env: string | undefined }): string {
  return env === undefined ? `\`${path}\`` : `\`${path}\`, \`${env}\``;
}
