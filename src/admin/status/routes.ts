/**
 * `GET /status`: what the status page shows. `GET /status/events`: the same every second, as server-sent events.
 * `GET /cache/history`: why requests for a URL were not hits.
 */
import express, { type Request, type Response, type Router } from "express";

import { Problem } from "../../errors.ts";
import type { Clock } from "../../process/clock.ts";
import { readOnly } from "../guard.ts";
import {
  askedFor,
  FORMAT_PARAMETER,
  formatOf,
  parameter,
  type Understanding,
  URL_PARAMETER,
} from "../parameters.ts";
import type { QueryHistory } from "./recorder.ts";
import type { Status } from "./status.ts";

export interface AdminStatusOptions extends Understanding {
  readonly status: () => Promise<Status>;
  readonly historyOf: (query: string) => QueryHistory;
  readonly after: Clock["after"];
  /** Whether the request may still read: its session may end while it is open. */
  readonly maySee: (request: Request) => boolean;
}

export const HISTORY_PARAMETERS = [URL_PARAMETER, FORMAT_PARAMETER];

export function createAdminStatus(options: AdminStatusOptions): Router {
  const router = express.Router();
  const follow = createEvents(options);
  router
    .route("/status")
    .get(async (_request, response) => {
      response.set("Cache-Control", "no-store").json(await options.status());
    })
    .all(readOnly);
  router.route("/status/events").get(follow).all(readOnly);
  router
    .route("/cache/history")
    .get((request, response) => {
      const { canonicalQuery } = askedFor(parameter(request, "url"), formatOf(request), options);
      const { requests, asked } = options.historyOf(canonicalQuery);
      response.set("Cache-Control", "no-store").json({ query: canonicalQuery, asked, requests });
    })
    .all(readOnly);
  return router;
}

const EVERY_MS = 1_000;
const MOST_PAGES = 50;
/** The stream to a page with more unread bytes than this is closed. The page then connects again. */
const MOST_UNREAD_BYTES = 1024 * 1024;

/** @returns a handler that keeps the response open and sends the status every second */
function createEvents(options: AdminStatusOptions): (request: Request, response: Response) => void {
  const { status, after, maySee } = options;
  const pages = new Map<Response, Request>();
  let cancel: (() => void) | undefined;
  let isSending = false;

  async function send(): Promise<void> {
    cancel?.();
    isSending = true;
    const event = await status().then(eventOf, () => undefined);
    isSending = false;
    for (const [page, request] of pages) {
      if (event === undefined || !maySee(request) || page.writableLength > MOST_UNREAD_BYTES) page.end();
      else page.write(event);
    }
    cancel = pages.size === 0 ? undefined : after(EVERY_MS, () => void send());
  }

  return (request, response) => {
    if (pages.size >= MOST_PAGES) {
      throw new Problem("too-many-connections", {
        detail: `${MOST_PAGES} status pages are open at once.`,
        retryAfterSeconds: 10,
      });
    }
    response.set({
      "Content-Type": "text/event-stream; charset=utf-8",
      "Cache-Control": "no-store",
      // nginx and similar proxies would otherwise buffer the events.
      "X-Accel-Buffering": "no",
    });
    response.flushHeaders();
    if (request.method === "HEAD") return void response.end();
    pages.set(response, request);
    response.once("close", () => pages.delete(response));
    if (!isSending) void send();
  };
}

function eventOf(status: Status): string {
  return `event: status\ndata: ${JSON.stringify(status)}\n\n`;
}
