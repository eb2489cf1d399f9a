/**
 * What the upstream says of how its answer may be used (RFC 9111, sections 4.2, 5.2.2 and 5.3; RFC 5861). Pure.
 */
import type { CachingHeaders } from "../types.ts";
import { httpDateMs } from "../http-date.ts";
import { elementsOf, secondsIn } from "../http-lists.ts";

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * @param headers as Node gives them, names in lower case
 * @param delayMs how long the head of the answer took: it may be as old as the request (section 4.2.3)
 * @param now epoch milliseconds
 */
export function termsIn(headers: Headers, delayMs: number, now: number): CachingHeaders {
  const vary = text(headers["vary"]) ?? "";
  const directives = elementsOf(String(headers["cache-control"] ?? ""));
  // Of a list the first counts (section 5.1).
  const [age] = (text(headers["age"]) ?? "").split(",");
  const ageMs = (secondsIn(age?.trim()) ?? 0) + Math.max(0, delayMs);
  const lifetimeMs = lifetimeIn(directives, headers, now);
  // A shared cache must not give these stale (sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
  const isStrict = ["must-revalidate", "proxy-revalidate", "s-maxage", "no-cache"].some((name) =>
    directives.has(name),
  );
  return {
    // `*` in `Vary` matches no later request (section 4.1); a shared cache keeps nothing private (section 5.2.2.7).
    mayStore: !directives.has("no-store") && !directives.has("private") && !elementsOf(vary).has("*"),
    ageMs,
    freshForMs: lifetimeMs === undefined ? undefined : lifetimeMs - ageMs,
    staleWhileRevalidateMs: isStrict ? 0 : secondsIn(directives.get("stale-while-revalidate")),
    staleIfErrorMs: isStrict ? 0 : secondsIn(directives.get("stale-if-error")),
  };
}

/** The first that says something (section 4.2.1); what says nonsense says that it is over already. */
function lifetimeIn(
  directives: ReadonlyMap<string, string>,
  headers: Headers,
  now: number,
): number | undefined {
  if (directives.has("no-cache")) return 0;
  for (const name of ["s-maxage", "max-age"]) {
    const value = directives.get(name);
    if (value !== undefined) return secondsIn(value) ?? 0;
  }
  const expires = text(headers["expires"]);
  if (expires === undefined) return undefined;
  const madeAt = httpDateMs(text(headers["date"]), now) ?? now;
  return Math.max(0, (httpDateMs(expires, now) ?? madeAt) - madeAt);
}

function text(value: Headers[string]): string | undefined {
  return value === undefined ? undefined : String(value);
}
