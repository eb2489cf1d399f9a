#!/usr/bin/env node
// This file is JavaScript, so that an old Node can print the message below. It cannot read TypeScript.
// The npm scripts and the image start here (docs/development.md).
import module from "node:module";

// SIGUSR1 would open Node's inspector, with which any user of the machine could read the private key. The npm scripts and the
// image prevent that with --disable-sigusr1; this line prevents it for a start by hand.
process.on("SIGUSR1", () => {});

// Node's own listener would print warnings as plain text among the JSON lines of the log. Once the program has loaded, the
// gateway logs warnings itself. Warnings before that only concern Node's experimental features.
// By default, SIGHUP ends a process. The running gateway reloads its settings at a SIGHUP. Until it has read them, it ignores one.
if (["gateway", "start"].includes(process.argv[2]))
  process.removeAllListeners("warning").on("SIGHUP", () => {});

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
