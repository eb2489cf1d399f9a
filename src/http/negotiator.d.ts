/** The published types describe an older version, which has no `preferred`. */
declare module "negotiator" {
  export default class Negotiator {
    constructor(request: { readonly headers: Readonly<Record<string, string>> });
    mediaType(available: readonly string[]): string | undefined;
    encodings(available: readonly string[], options: { readonly preferred: readonly string[] }): string[];
  }
}
