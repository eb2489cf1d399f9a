/**
 * Understands URLs with raw non-ASCII characters, as curl sends them. Node's parser refuses their bytes. They are then
 * percent-encoded, and the request is parsed again.
 */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/** Method, target and version, then the other lines of the head up to its end. All bytes are printable or beyond ASCII. */
const HEAD = /^(GET|HEAD) (\/[\x21-\x7e\x80-\xff]*)( HTTP\/1\.[01]\r\n(?:[^\r\n]+\r\n)*\r\n)$/;

/**
 * @param error the error of the event `clientError`
 * @returns the head of the request with an encoded URL; `undefined` if it is not complete, has other faults, or if anything
 *   follows it
 */
export function withEncodedUrl(error: Error): Buffer | undefined {
  const packet: unknown = Reflect.get(error, "rawPacket");
  if (Reflect.get(error, "code") !== "HPE_INVALID_URL" || !Buffer.isBuffer(packet)) return undefined;
  const [, method, target = "", rest] = HEAD.exec(packet.toString("latin1")) ?? [];
  const encoded = target.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
  return encoded === target ? undefined : Buffer.from(`${method} ${encoded}${rest}`, "latin1");
}

/** A connection on which one request, which is already known, has arrived. Its response goes to the caller's socket. */
export class OneRequest extends Duplex {
  readonly #socket: Socket;

  constructor(head: Buffer, socket: Socket) {
    super();
    this.#socket = socket;
    this.push(head);
    socket.on("error", () => this.destroy());
    socket.once("close", () => this.destroy());
  }
  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress;
  }
  get remotePort(): number | undefined {
    return this.#socket.remotePort;
  }
  setTimeout(ms: number): void {
    this.#socket.setTimeout(ms);
  }
  /** Node calls it when the response has ended. */
  destroySoon(): void {
    this.#socket.destroySoon();
  }
  override _read(): void {
    // Nothing follows the request.
  }
  override _write(chunk: Buffer, _encoding: BufferEncoding, written: () => void): void {
    this.#socket.write(chunk, written);
  }
  override _final(ended: () => void): void {
    this.#socket.end(ended);
  }
  override _destroy(error: Error | null, destroyed: (error: Error | null) => void): void {
    this.#socket.destroy();
    destroyed(error);
  }
}
