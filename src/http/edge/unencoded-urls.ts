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

/** @returns a connection on which only this head of a request has arrived. The response goes to the caller's socket. */
export function connectionWith(head: Buffer, socket: Socket): Duplex {
  const connection = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, written) => void socket.write(chunk, written),
    final: (ended) => void socket.end(ended),
    destroy(error, destroyed) {
      socket.destroy();
      destroyed(error);
    },
  });
  connection.push(head);
  socket.on("error", () => connection.destroy());
  socket.once("close", () => connection.destroy());
  const { remoteAddress, remotePort } = socket;
  const setTimeout = (ms: number): void => void socket.setTimeout(ms);
  // Node calls this method after the last response.
  const destroySoon = (): void => socket.destroySoon();
  return Object.assign(connection, { remoteAddress, remotePort, setTimeout, destroySoon });
}
