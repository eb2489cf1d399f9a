import manifest from "../../package.json" with { type: "json" };

export interface Build {
  readonly version: string;
  readonly node: string;
}

/** The versions of the gateway and of Node in this process. */
export const build: Build = { version: manifest.version, node: process.version };
