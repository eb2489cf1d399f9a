import manifest from "../../package.json" with { type: "json" };

/** The versions of the gateway and of Node in this process. */
export const build = { version: manifest.version, node: process.version };
