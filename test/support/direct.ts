/** Asks the sandbox itself, signed with a computation of its own: what the truth is. */
import { createHash, randomUUID } from "node:crypto";

import { ask, type Reply } from "./ask.ts";
import { CALLER } from "./gateway.ts";

export function askDirectly(sandboxUrl: string, target: string, accept = "application/json"): Promise<Reply> {
  const time = String(Math.floor(Date.now() / 1000));
  const unique = randomUUID().replaceAll("-", "").slice(0, 16);
  const hash = createHash("sha1")
    .update(CALLER.callerId + time + CALLER.privateKey + unique)
    .digest("hex");
  const signature = `callerId=${CALLER.callerId}&time=${time}&unique=${unique}&hash=${hash}`;
  return ask(`${sandboxUrl}${target}${target.includes("?") ? "&" : "?"}${signature}`, {
    headers: { accept },
  });
}
