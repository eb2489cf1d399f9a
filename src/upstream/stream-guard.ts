/**
 * Watches a body that is streamed to a caller. It fails if the body is too large, or repeats the signature of its request. The
 * last bytes are held back. So a short body is judged as a whole before anything of it is sent, and no part of a signature gets
 * through. Of a longer body only the beginning is judged.
 */
import { Transform, type TransformCallback } from "node:stream";

import type { Resource } from "../interface/resources.ts";
import { UpstreamFault } from "./send.ts";
import { REPEATED_SIGNATURE, type Verdict } from "./verdict.ts";

/** Most answers are shorter. */
const HELD_BYTES = 64 * 1024;

export interface StreamGuardOptions {
  readonly resource: Resource;
  readonly signature: readonly string[];
  readonly maxBytes: number;
  /** Whether the upstream has sent all of the body. A body without its last chunk also ends. */
  readonly isWhole: () => boolean;
  /** Judges a whole body. */
  readonly judge: (body: Buffer) => Verdict;
  /** Called before the first bytes are passed on. */
  readonly onBegin: () => void;
}

export class StreamGuard extends Transform {
  /** The bytes of the body so far. */
  bytes = 0;
  readonly #options: StreamGuardOptions;
  #held = Buffer.alloc(0);
  #hasBegun = false;

  constructor(options: StreamGuardOptions) {
    // All of it fits, so a caller that reads slowly does not slow down the upstream.
    super({ readableHighWaterMark: options.maxBytes });
    this.#options = options;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const { maxBytes, signature } = this.#options;
    this.bytes += chunk.length;
    const body = Buffer.concat([this.#held, chunk]);
    if (this.bytes > maxBytes) return done(new UpstreamFault("too-large"));
    if (signature.some((part) => body.includes(part)))
      return done(new UpstreamFault("malformed", REPEATED_SIGNATURE));
    const passed = body.subarray(0, Math.max(0, body.length - HELD_BYTES));
    this.#held = body.subarray(passed.length);
    this.#pass(passed, done);
  }

  override _flush(done: TransformCallback): void {
    if (!this.#options.isWhole()) return done(new UpstreamFault("cut-body"));
    const { problem } = this.#hasBegun ? {} : this.#options.judge(this.#held);
    if (problem !== undefined) return done(new UpstreamFault("malformed", problem.message));
    this.#pass(this.#held, done);
  }

  #pass(bytes: Buffer, done: TransformCallback): void {
    if (bytes.length > 0 && !this.#hasBegun) {
      if (!beginsLikeAnswer(bytes, this.#options.resource))
        return done(new UpstreamFault("malformed", "the body does not begin like an answer"));
      this.#hasBegun = true;
      this.#options.onBegin();
    }
    done(null, bytes);
  }
}

/** JSON answers are objects (interface, section 2.7), and thumbnails are JPEGs. */
function beginsLikeAnswer(bytes: Buffer, resource: Resource): boolean {
  if (resource === "images") return bytes[0] === 0xff;
  return bytes.toString("latin1", 0, 64).trimStart().startsWith("{");
}
