// The one JavaScript file: an old Node cannot read TypeScript, so it could not even say what is wrong.
// `npm start`, `npm run demo` and the like come through here with the project's own Node (docs/development.md).
import module from "node:module";

const COMMANDS = {
  gateway: "./main.ts",
  demo: "./cli/demo.ts",
  sandbox: "./sandbox/main.ts",
  "config-check": "./cli/config-check.ts",
  "adopt-data": "./cli/adopt-data.ts",
  "health-check": "./cli/health-check.ts",
};

// SIGUSR1 would open Node's inspector, through which anybody on the machine can read the private key. The npm scripts
// and the image rule that out with --disable-sigusr1 from the first moment on; this is for a start by hand.
process.on("SIGUSR1", () => {});

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
