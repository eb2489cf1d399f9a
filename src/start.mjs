#!/usr/bin/env node
// The one JavaScript file: an old Node cannot read TypeScript, so it could not even say what is wrong.
// `npx property-gateway`, the npm scripts and the image come through here (docs/development.md).
import module from "node:module";

// SIGUSR1 would open Node's inspector, through which anybody on the machine can read the private key. The npm scripts
// and the image rule that out with --disable-sigusr1 from the first moment on; this is for a start by hand.
process.on("SIGUSR1", () => {});

const OLDEST_NODE = 24;

if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
  console.error(
    `property-gateway needs Node ${OLDEST_NODE} or newer; this is ${process.versions.node}.\n` +
      "Start it through npm, which uses the Node that the project pins: `npm ci`, then `npm start`. On Alpine and\n" +
      `other systems without glibc there is no pinned Node: install Node ${OLDEST_NODE} or newer.`,
  );
  process.exitCode = 1;
} else {
  module.enableCompileCache?.();
  const { runCommand } = await import("./cli/program.ts");
  await runCommand(process.argv.slice(2));
}
