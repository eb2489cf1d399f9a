/** Part of an OpenAPI document. */
export type Json = Readonly<Record<string, unknown>>;

/** The version of the OpenAPI standard that the documents follow. */
export const OPENAPI_VERSION = "3.1.1";
