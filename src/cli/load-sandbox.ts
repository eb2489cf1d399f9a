/** The sandbox is a part of the project, but not of the image. */
import type * as Sandbox from "../sandbox/sandbox.ts";
import { CommandFailure } from "./exit.ts";

/** @throws {CommandFailure} in the image */
export async function loadSandbox(): Promise<typeof Sandbox> {
  try {
    return await import("../sandbox/sandbox.ts");
  } catch (error) {
    const code: unknown = error instanceof Error && Reflect.get(error, "code");
    if (code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new CommandFailure(
      "The image has no sandbox. Run it from the project's folder: npm run sandbox, npm run demo, or docker compose up.",
    );
  }
}
