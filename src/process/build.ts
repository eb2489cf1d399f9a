import manifest from "../../package.json" with { type: "json" };

/** What runs: the gateway's version, and Node's. */
export const build = { version: manifest.version, node: process.version };
