/** The published types are those of an older version, without `preferred`. */
declare module "negotiator" {
  export default class Negotiator {
    constructor(request: { readonly headers: Readonly<Record<string, string>> });
    mediaType(available: readonly string[]): string | undefined;
    encodings(available: readonly string[], options: { readonly preferred: readonly string[] }): string[];
  }
}
