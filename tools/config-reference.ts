import { SETTINGS, settingsSchema } from "../src/config/schema.ts";
import type { Setting } from "../src/config/schema/setting.ts";
import { isMapping } from "../src/config/sources.ts";

const INTRODUCTION = `# Configuration

<!-- Written by \`npm run generate\` from src/config/schema.ts. -->

Environment variables override the YAML file that \`CONFIG_FILE\` names, and the file overrides the defaults. The file contains only what
you change: sections are merged key by key, lists replaced as a whole. An empty variable counts as unset, except \`DATA_DIR\`.

The gateway does not start if a setting is unknown, malformed or missing. It prints one line for each mistake:

\`\`\`
gateway.yaml:3: server.prot: unknown setting; did you mean server.port?
\`\`\`

\`npm run -s cli -- check-config\` prints the same lines, or lists where each value comes from. Your editor can complete and check
your file with this first line:

\`\`\`yaml
# yaml-language-server: $schema=./property-gateway.schema.json
\`\`\`

Durations: \`250ms\`, \`5m\`, \`1d\`. Sizes: \`512KiB\`, \`4MiB\`. Budgets: \`60/1m,10000/1d\`. \`CACHE_TTL\` sets single lifetimes and
leaves the others: \`listings=5m,sold=1h\`. Defaults are in parentheses. A setting with ↻ can change
[while the gateway runs](operations.md#change-settings-while-it-runs); the others need a restart.
`;

/** @returns the reference of all settings, a list per section */
export function configReference(): string {
  const sections = Object.keys(settingsSchema.shape).map((name) => {
    const rows = SETTINGS.filter((setting) => setting.path[0] === name);
    if (rows.length === 0) return "";
    return [`## ${name}`, "", ...rows.map(lineOf), ""].join("\n");
  });
  return [INTRODUCTION, ...sections.filter((text) => text !== "")].join("\n");
}

function lineOf(setting: Setting): string {
  const { name, env, secretEnv, reloadable = false, description = "", expected } = setting;
  const names = [name, env, secretEnv].filter((one) => one !== undefined).map(code);
  const head = `${names.join(", ")}${reloadable ? " ↻" : ""}${defaultOf(setting)}`;
  return `- ${head}: ${description} ${accepts(expected, description)}`.trimEnd();
}

/** What the introduction, the name or the default says already, and bounds that nobody meets. */
const KNOWN =
  /^(?:the (?:path|name) of|a size|requests per window|an? https?:|one duration for all|a host name or|true or|one line of|a header name|a list of (?:nodes|Sentinels|URLs|parameter names)|width and height|a port number|.* to 24d)/;

/** @returns the bounds and words of a setting, without examples; nothing if the description has all words */
function accepts(expected: string, description: string): string {
  const words = /^one of (.*)$/.exec(expected)?.[1]?.split(", ") ?? [];
  const isTold = words.length > 0 && words.every((word) => description.includes(`${word}: `));
  if (isTold || KNOWN.test(expected)) return "";
  const [bounds = ""] = expected
    .replace(/^a (?:duration|whole number|number) from /, "")
    .split(/, (?:such|where)\b/);
  return `(${bounds})`;
}

function defaultOf({ required, default: written = null }: Setting): string {
  if (required) return " (**required**)";
  if (written === null || written === "") return "";
  const text = isMapping(written)
    ? Object.entries(written)
        .map((pair) => pair.join("="))
        .join(",")
    : written;
  return ` (${code(typeof text === "string" ? text : JSON.stringify(text))})`;
}

function code(text: string): string {
  return `\`${text}\``;
}
