import { settingsSchema } from "../src/config/config-schema.ts";
import { type DocumentedSetting, documentedSettings } from "./settings-table.ts";

const INTRODUCTION = `# Configuration

<!-- Written by \`npm run generate\` from config/default.yaml and src/config/config-schema.ts. -->

Settings come from three places. A later one wins over an earlier one:

1. \`config/default.yaml\`, which holds every setting with its default;
2. the YAML file that the environment variable \`CONFIG_FILE\` names, if it is set. It holds only what you change:
   sections are merged key by key, lists are replaced as a whole;
3. environment variables, for the settings that have one. An empty variable counts as unset
   (but for \`DATA_DIR\`, where empty means: keep nothing on disk).

A setting that is unknown, malformed or missing stops the start, with one line for each:

\`\`\`
gateway.yaml:3: server.prot: unknown setting; did you mean server.port?
environment variable BUDGET_MAX_WAIT: budget.maxWait: found "10"; expected a duration from 1ms to 24d, such as 250ms, 5m or 1h
\`\`\`

\`npm run config:check\` says the same without starting, and lists what is set where. Secrets are shown as
\`[secret]\`. For completion and checks while you write, point your editor at
\`config/property-gateway.schema.json\`, for instance with this first line:

\`\`\`yaml
# yaml-language-server: $schema=./property-gateway.schema.json
\`\`\`

**Durations** are a whole number and \`ms\`, \`s\`, \`m\`, \`h\` or \`d\`: \`250ms\`, \`5m\`, \`1d\`.
**Sizes** are a whole number and \`B\`, \`KiB\`, \`MiB\` or \`GiB\`: \`512KiB\`, \`4MiB\`.
**Budgets** are requests per span of time, one or several: \`60/1m,10000/1d\`.
\`CACHE_TTL\` sets single lifetimes and leaves the others: \`listings=5m,sold=1h\`.

The smallest configuration is what has no default: the address of the API and of its thumbnails, its
media-type name, your caller id and private key, and the two lines that say who you are.
`;

/**
 * The reference of all settings, a table per section.
 * @param defaults the text of the file of defaults
 */
export function configReference(defaults: string): string {
  const settings = documentedSettings(defaults);
  const sections = Object.keys(settingsSchema.shape).map((name) => {
    const rows = settings.filter((setting) => setting.path[0] === name);
    return [`## ${name}`, "", ...table(rows), ""].join("\n");
  });
  return [INTRODUCTION, ...sections].join("\n");
}

function table(rows: readonly DocumentedSetting[]): string[] {
  return [
    "| Setting | Environment | Default | Meaning | Accepts |",
    "| --- | --- | --- | --- | --- |",
    ...rows.map((row) => {
      const cells = [code(row.path.join(".")), row.variable ? code(row.variable) : "", defaultOf(row)];
      return `| ${[...cells, row.meaning, row.expected].map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
    }),
  ];
}

function defaultOf(setting: DocumentedSetting): string {
  if (setting.required) return "**required**";
  if (setting.default === null) return "unset";
  return code(typeof setting.default === "string" ? setting.default : JSON.stringify(setting.default));
}

function code(text: string): string {
  return `\`${text}\``;
}
