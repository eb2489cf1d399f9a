/** `GET /log`: the settings of the log. `POST /log`: changes them until the settings are reloaded or the process ends. */
import express, { type Router } from "express";

import type { Config } from "../config/config.ts";
import type { Observer } from "../types.ts";
import { getAndPost } from "./guard.ts";
import { mistake, refuseUnknownMembers } from "./parameters.ts";

type LogSettings = Config["log"];

export interface AdminLogOptions {
  readonly logSettings: () => LogSettings;
  readonly changeLog: (change: Partial<LogSettings>) => LogSettings;
  readonly observer: Pick<Observer, "info">;
}

const LEVELS = [
  "trace",
  "debug",
  "info",
  "warn",
  "error",
  "silent",
] as const satisfies LogSettings["level"][];
const ACCESS = ["on", "off", "sampled", "errors"] as const satisfies LogSettings["access"][];
const MOST_SAMPLED = 1_000_000;

/** The members of a change as JSON Schemas. */
export const LOG_PROPERTIES = {
  level: { type: "string", enum: LEVELS, description: "The lowest level of events (log.level)." },
  access: { type: "string", enum: ACCESS, description: "Which requests are logged (log.access)." },
  accessSample: {
    type: "integer",
    minimum: 1,
    maximum: MOST_SAMPLED,
    description: "With access: sampled, one in this many cache hits is logged (log.accessSample).",
  },
} as const;

export function createAdminLog({ logSettings, changeLog, observer }: AdminLogOptions): Router {
  const router = express.Router();
  router
    .route("/log")
    .get((_request, response) => void response.json(logSettings()))
    .post(express.json({ limit: "1kb", type: () => true }), (request, response) => {
      const change = changeIn(request.body);
      const from = logSettings();
      observer.info("The log changes until the settings are reloaded.", { from, to: { ...from, ...change } });
      response.json(changeLog(change));
    })
    .all(getAndPost);
  return router;
}

/** @throws {Problem} `invalid-admin-request` */
function changeIn(body: unknown): Partial<LogSettings> {
  if (typeof body !== "object" || body === null || Object.keys(body).length === 0) throw mistake(EXPECTED);
  refuseUnknownMembers(body, Object.keys(LOG_PROPERTIES));
  const level = wordIn(body, "level", LEVELS);
  const access = wordIn(body, "access", ACCESS);
  const accessSample = sampleIn(body);
  return {
    ...(level !== undefined && { level }),
    ...(access !== undefined && { access }),
    ...(accessSample !== undefined && { accessSample }),
  };
}

function wordIn<W extends string>(body: object, name: string, words: readonly W[]): W | undefined {
  const value: unknown = Reflect.get(body, name);
  const word = words.find((one) => one === value);
  if (value !== undefined && word === undefined)
    throw mistake(`"${name}" must be one of ${words.join(", ")}.`);
  return word;
}

function sampleIn(body: object): number | undefined {
  const value: unknown = Reflect.get(body, "accessSample");
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= MOST_SAMPLED)
    return value;
  throw mistake(`"accessSample" must be a whole number from 1 to ${MOST_SAMPLED}.`);
}

const EXPECTED = `Send JSON with one or more of ${Object.keys(LOG_PROPERTIES).join(", ")}, such as {"level": "debug"}.`;
