// The one JavaScript file: an old Node cannot read TypeScript, so it could not even say what is wrong.
// `npm start`, `npm run demo` and the like come through here with the project's own Node (docs/development.md).
import module from "node:module";

const COMMANDS = {
  gateway: "./main.ts",
  demo: "./cli/demo.ts",
  sandbox: "./sandbox/main.ts",
  "config-check": "./cli/config-check.ts",
  "health-check": "./cli/health-check.ts",
};

const OLDEST_NODE = 24;
const command = process.argv[2];
const file = COMMANDS[command];

if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
  console.error(
    `property-gateway needs Node ${OLDEST_NODE} or newer; this is ${process.versions.node}.\n` +
      "Start it through npm, which uses the Node the project pins: `npm ci`, then `npm start`.",
  );
  process.exitCode = 1;
} else if (!file) {
  console.error(
    `Unknown command ${JSON.stringify(command ?? "")}. Known: ${Object.keys(COMMANDS).join(", ")}.`,
  );
  process.exitCode = 1;
} else {
  module.enableCompileCache?.();
  const { main } = await import(file);
  await main();
}
