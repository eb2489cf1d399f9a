/**
 * JSON as the upstream writes it: compact, slashes escaped (`\/`), everything beyond ASCII as lower-case
 * `\uXXXX` (PHP's `json_encode` without flags).
 */

const TO_ESCAPE = /[/\u0080-\uffff]/g;

function escapeUnit(unit: string): string {
  return unit === "/" ? "\\/" : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/**
 * @param value anything JSON can hold; members that are `undefined` are left out
 * @returns ASCII text
 */
export function phpJson(value: unknown): string {
  // Slashes and non-ASCII occur only inside JSON strings, so escaping the whole text is safe.
  return JSON.stringify(value).replaceAll(TO_ESCAPE, escapeUnit);
}

const written = new WeakMap<object, string>();

/** As `phpJson`, remembering the text: records never change, and pages overlap. */
export function phpJsonOnce(record: object): string {
  let text = written.get(record);
  if (text === undefined) {
    text = phpJson(record);
    written.set(record, text);
  }
  return text;
}
