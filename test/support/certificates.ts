/**
 * Certificates made during the tests: an authority, and what it signs. It has the part of X.509 (RFC 5280) that TLS
 * needs, and needs no other program.
 */
import { createSign, generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";

export interface Certificate {
  /** PEM. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
}

export type Authority = ReturnType<typeof createAuthority>;

const HOUR_MS = 3_600_000;

export function createAuthority(name = "A test's authority") {
  const own = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const times = { from: Date.now() - HOUR_MS, until: Date.now() + HOUR_MS };
  const sign = certificate(name, own.privateKey);
  return {
    cert: sign(name, own.publicKey, times, extension(BASIC_CONSTRAINTS, sequence(boolean(true)))),
    key: pemOf(own.privateKey),
    /**
     * Makes a certificate for a server.
     * @param hosts names and IPv4 addresses it is for
     * @param validity in epoch milliseconds; by default from an hour ago to in an hour
     */
    issue(hosts = ["127.0.0.1", "localhost"], validity: Partial<typeof times> = {}): Certificate {
      const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const names = extension(SUBJECT_ALT_NAME, sequence(...hosts.map(generalName)));
      const cert = sign("A test's server", publicKey, { ...times, ...validity }, names);
      return { cert, key: pemOf(privateKey) };
    },
  };
}

const COMMON_NAME = "2.5.4.3";
const SUBJECT_ALT_NAME = "2.5.29.17";
const BASIC_CONSTRAINTS = "2.5.29.19";
const ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2";

/** @returns a function that makes certificates of an issuer (RFC 5280, section 4.1), as PEM */
const certificate =
  (issuer: string, signWith: KeyObject) =>
  (subject: string, publicKey: KeyObject, times: { from: number; until: number }, more: Buffer): string => {
    const algorithm = sequence(objectId(ECDSA_WITH_SHA256));
    const toBeSigned = sequence(
      tagged(0xa0, integer(Buffer.of(2))),
      integer(Buffer.concat([Buffer.of(1), randomBytes(8)])),
      algorithm,
      distinguishedName(issuer),
      sequence(time(times.from), time(times.until)),
      distinguishedName(subject),
      publicKey.export({ type: "spki", format: "der" }),
      tagged(0xa3, sequence(more)),
    );
    const signature = createSign("sha256").update(toBeSigned).sign(signWith);
    const whole = sequence(toBeSigned, algorithm, bits(signature)).toString("base64");
    return `-----BEGIN CERTIFICATE-----\n${whole.match(/.{1,64}/g)?.join("\n")}\n-----END CERTIFICATE-----\n`;
  };

const pemOf = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" });

/** X.690: tag, length, content. */
function tagged(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...size), content]);
}

const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, ...parts);
const integer = (bytes: Buffer): Buffer => tagged(0x02, bytes);
const boolean = (value: boolean): Buffer => tagged(0x01, Buffer.of(value ? 0xff : 0));
const bits = (bytes: Buffer): Buffer => tagged(0x03, Buffer.of(0), bytes);
const text = (value: string): Buffer => tagged(0x0c, Buffer.from(value));

/** Generalized time, to the second. */
function time(epochMs: number): Buffer {
  const digits = new Date(epochMs).toISOString().replace(/\.\d+/, "").replaceAll(/[-:T]/g, "");
  return tagged(0x18, Buffer.from(digits));
}

function distinguishedName(name: string): Buffer {
  return sequence(tagged(0x31, sequence(objectId(COMMON_NAME), text(name))));
}

const extension = (id: string, value: Buffer): Buffer => sequence(objectId(id), tagged(0x04, value));

function generalName(host: string): Buffer {
  const numbers = host.split(".").map(Number);
  const isAddress = numbers.length === 4 && numbers.every((number) => number >= 0 && number <= 255);
  return isAddress ? tagged(0x87, Buffer.from(numbers)) : tagged(0x82, Buffer.from(host));
}

function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((number) => {
    const digits = [number & 0x7f];
    for (let left = number >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
    return digits;
  });
  return tagged(0x06, Buffer.from(bytes));
}
