/**
 * Finds where JSON values begin and end in raw bytes, so that they can be copied instead of serialised again.
 *
 * The bytes are expected to be JSON (src/upstream/verdict.ts has parsed them). Truncated or misplaced bytes are
 * reported as malformed. The content of a value is not checked.
 */

/** A part of a buffer: from `start` up to, not including, `end`. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** Thrown if the bytes are not as expected. The message says why. */
export class Unreadable extends Error {
  constructor(why = "malformed") {
    super(why);
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** @returns the position of the first byte at or after `at` that is not white space */
export function skipSpace(bytes: Buffer, at: number): number {
  let position = at;
  while (isSpace(bytes[position])) position += 1;
  return position;
}

/** @param at the position of the opening quote */
function endOfString(bytes: Buffer, at: number): number {
  for (let position = at + 1; position < bytes.length; position += 1) {
    const byte = bytes[position];
    if (byte === QUOTE) return position + 1;
    if (byte === BACKSLASH) position += 1;
  }
  throw new Unreadable();
}

/** @param at the position of the opening bracket or brace */
function endOfNested(bytes: Buffer, at: number): number {
  let depth = 0;
  for (let position = at; position < bytes.length; position += 1) {
    const byte = bytes[position];
    if (byte === QUOTE) position = endOfString(bytes, position) - 1;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    if (depth === 0) return position + 1;
  }
  throw new Unreadable();
}

function endsScalar(byte: number): boolean {
  return isSpace(byte) || byte === COMMA || byte === COLON || byte === CLOSE_BRACE || byte === CLOSE_BRACKET;
}

/** @returns the end of the value that begins at `at` */
function endOfValue(bytes: Buffer, at: number): number {
  const byte = bytes[at];
  if (byte === QUOTE) return endOfString(bytes, at);
  if (byte === OPEN_BRACE || byte === OPEN_BRACKET) return endOfNested(bytes, at);
  let position = at;
  while (position < bytes.length && !endsScalar(bytes[position] ?? COMMA)) position += 1;
  if (position === at) throw new Unreadable();
  return position;
}

/** @returns the bytes as text, one character each */
export function textAt(bytes: Buffer, { start, end }: Range): string {
  return bytes.toString("latin1", start, end);
}

/**
 * Visits the members of an object.
 * @param at the position of its opening brace
 * @param visit called with the range of each member's name, without its quotes, and the range of its value
 * @returns its end
 */
export function eachMember(bytes: Buffer, at: number, visit: (name: Range, value: Range) => void): number {
  return eachItem("{}", bytes, at, (position) => {
    if (bytes[position] !== QUOTE) throw new Unreadable();
    const nameEnd = endOfString(bytes, position);
    const colon = skipSpace(bytes, nameEnd);
    if (bytes[colon] !== COLON) throw new Unreadable();
    const start = skipSpace(bytes, colon + 1);
    const end = endOfValue(bytes, start);
    visit({ start: position + 1, end: nameEnd - 1 }, { start, end });
    return end;
  });
}

/** Visits the elements of an array. @param at the position of the opening bracket. @returns its end */
export function eachElement(bytes: Buffer, at: number, visit: (element: Range) => void): number {
  return eachItem("[]", bytes, at, (start) => {
    const end = endOfValue(bytes, start);
    visit({ start, end });
    return end;
  });
}

/**
 * Visits the items between brackets.
 * @param at the position of the opening bracket
 * @param endOf called with the start of each item; returns its end
 * @returns the position after the closing bracket
 */
function eachItem(
  brackets: "[]" | "{}",
  bytes: Buffer,
  at: number,
  endOf: (start: number) => number,
): number {
  const [open, close] = [brackets.charCodeAt(0), brackets.charCodeAt(1)];
  if (bytes[at] !== open) throw new Unreadable();
  let position = skipSpace(bytes, at + 1);
  if (bytes[position] === close) return position + 1;
  for (;;) {
    const next = skipSpace(bytes, endOf(position));
    if (bytes[next] === close) return next + 1;
    if (bytes[next] !== COMMA) throw new Unreadable();
    position = skipSpace(bytes, next + 1);
  }
}
