import { SETTINGS, settingsSchema } from "../src/config/schema.ts";
import type { Setting } from "../src/config/setting.ts";
import { isMapping } from "../src/config/sources.ts";

const INTRODUCTION = `# Configuration

<!-- Written by \`npm run generate\` from src/config/schema.ts. -->

Settings come from three places. A later place overrides an earlier one:

1. The defaults. \`config/default.yaml\` shows them all; the gateway does not read that file.
2. The YAML file that the environment variable \`CONFIG_FILE\` names, if it is set. It contains only what you change.
   The gateway merges sections key by key and replaces lists as a whole.
3. Environment variables, for the settings that have one. An empty variable counts as unset, except \`DATA_DIR\`: an
   empty \`DATA_DIR\` keeps nothing on disk.

The gateway does not start if a setting is unknown, malformed or missing. It prints one line for each mistake:

\`\`\`
gateway.yaml:3: server.prot: unknown setting; did you mean server.port?
environment variable BUDGET_MAX_WAIT: budget.maxWait: found "10"; expected a duration from 1ms to 24d, such as 250ms, 5m or 1h
\`\`\`

\`npm run config:check\` prints the same lines without starting. For valid settings it lists where each value comes from. It
shows secrets as \`[secret]\`. Your editor can complete and check your file if you point it at
\`config/property-gateway.schema.json\`, for instance with this first line:

\`\`\`yaml
# yaml-language-server: $schema=./property-gateway.schema.json
\`\`\`

**Durations** are a whole number and \`ms\`, \`s\`, \`m\`, \`h\` or \`d\`: \`250ms\`, \`5m\`, \`1d\`.
**Sizes** are a whole number and \`B\`, \`KiB\`, \`MiB\` or \`GiB\`: \`512KiB\`, \`4MiB\`.
**Budgets** are requests per window, for one window or several: \`60/1m,10000/1d\`.
\`CACHE_TTL\` sets single lifetimes and leaves the others: \`listings=5m,sold=1h\`.

The smallest configuration contains the settings without a default: the addresses of the API and of its thumbnails, its
media-type name, your caller id and private key, and the two headers that identify you.

The column "Reload" says whether a new value applies when the gateway reads its settings again (SIGHUP or
\`POST /config/reload\`). A change of any other setting needs a restart.
`;

/** @returns the reference of all settings, a table per section */
export function configReference(): string {
  const sections = Object.keys(settingsSchema.shape).map((name) => {
    const rows = SETTINGS.filter((setting) => setting.path[0] === name);
    if (rows.length === 0) return "";
    return [`## ${name}`, "", ...table(rows), ""].join("\n");
  });
  return [INTRODUCTION, ...sections.filter((text) => text !== "")].join("\n");
}

function table(rows: readonly Setting[]): string[] {
  return [
    "| Setting | Environment | Default | Reload | Meaning | Accepts |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows.map((row) => {
      const { name, env, secretEnv, reloadable = false, description = "", expected } = row;
      const variables = [env, secretEnv].filter((one) => one !== undefined).map(code);
      const cells = [code(name), variables.join(", "), defaultOf(row), reloadable ? "yes" : "no"];
      const escaped = [...cells, description, expected].map((cell) => cell.replaceAll("|", "\\|"));
      return `| ${escaped.join(" | ")} |`;
    }),
  ];
}

function defaultOf({ required, default: written = null }: Setting): string {
  if (required) return "**required**";
  if (written === null) return "unset";
  if (!isMapping(written)) return code(typeof written === "string" ? written : JSON.stringify(written));
  return code(
    Object.entries(written)
      .map((pair) => pair.join("="))
      .join(","),
  );
}

function code(text: string): string {
  return `\`${text}\``;
}
