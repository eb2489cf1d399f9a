/** Text tables beside tests. A section begins with `# title`. A row is a line with an arrow: `what is given -> what comes of it`. */
import { readFileSync } from "node:fs";

/** @param url of the table */
export function sectionsOf(url: URL) {
  const sections = readFileSync(url, "utf8").split(/^# /m).slice(1);
  return sections.map((text) => {
    const rows = [...text.matchAll(/^(\S.*) -> (.*)$/gm)];
    if (rows.length === 0) throw new Error(`there are no rows in ${text}`);
    const [title = ""] = text.split("\n", 1);
    return { title, text, rows: rows.map(([, given = "", outcome = ""]) => [given, outcome] as const) };
  });
}

/** @returns the text with `\x00` and `\u0000` replaced by characters, and `{a#*3}` by `a0a1a2` */
export function unescaped(written: string): string {
  return written
    .replaceAll(/\{([^{}]+)\*(\d+)\}/g, (_, text: string, times: string) =>
      Array.from({ length: Number(times) }, (_one, at) => text.replace("#", String(at))).join(""),
    )
    .replaceAll(/\\(?:x(..)|u(....))/g, (_, byte: string, unit: string) =>
      String.fromCharCode(Number.parseInt(byte ?? unit, 16)),
    );
}
