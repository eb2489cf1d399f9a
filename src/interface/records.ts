/**
 * The fields of the upstream's records (interface, sections 2.1 to 2.7), as JSON Schemas. The interface does not say which
 * fields are always present, and it may get new fields. So only the id is required, and further fields are allowed.
 */
import type { SearchResource } from "./resources.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

const field =
  (type: string) =>
  (description: string, more: JsonSchema = {}): JsonSchema => ({ type, description, ...more });
const text = field("string");
const whole = field("integer");
const list = (description: string): JsonSchema => field("array")(description, { items: { type: "string" } });
/** Fields whose names say everything. @param names separated by blanks */
const named = (type: string, names: string): JsonSchema =>
  Object.fromEntries(names.split(" ").map((name) => [name, { type }]));
const object = (properties: JsonSchema, more: JsonSchema = {}): JsonSchema => ({
  type: "object",
  properties,
  ...more,
});
const record = (properties: JsonSchema, description: string): JsonSchema =>
  object(properties, { description, required: ["serviceId"] });

const location = object(
  {
    namedAreas: list("Names of areas the property lies in."),
    region: object(named("string", "municipalityName countyName")),
    address: object({ streetAddress: text("Street and number."), city: text("City; sold records only.") }),
    position: object(named("number", "latitude longitude")),
    distance: object({ ocean: whole("Distance to the sea; sold records only.") }),
  },
  { description: "Where the property lies." },
);

const source = object(
  { ...named("string", "name url type"), id: whole("Sold records only.") },
  { description: "The seller or broker." },
);

const property = {
  serviceId: whole("Unique id of the record. It is also part of the thumbnail's address."),
  published: text("When the ad was published.", { examples: ["2026-06-01 11:58:59"] }),
  location,
  objectType: text("Property type.", { examples: ["Villa"] }),
  source,
  rent: { type: "number", description: "Monthly fee." },
  ...named("number", "rooms livingArea floor"),
  ...named("integer", "listPrice constructionYear"),
  url: text("Address of the ad on the service's website."),
};

/** The record of each resource. */
export const RECORD_SCHEMAS: Readonly<Record<SearchResource, JsonSchema>> = {
  listings: record(
    { ...property, pageviews: whole("Number of views. Only in the answer for one record.") },
    "A property for sale.",
  ),
  sold: record(
    {
      ...property,
      soldDate: text("Date of the sale.", { examples: ["2026-05-31"] }),
      ...named("integer", "soldPrice"),
    },
    "A sold property.",
  ),
  areas: record(
    {
      serviceId: whole("Area id; usable as areaId in searches."),
      types: list("Kinds of area."),
      parentTypes: list("Kinds of the parent area."),
      ...named("integer", "parentServiceId"),
      ...named("string", "name parentName"),
      fullName: text("Name followed by the parent's name."),
    },
    "A geographic area.",
  ),
};

/** The fields of a list besides its records (section 2.7). Both spellings of `offset` occur. */
export const ENVELOPE_SCHEMAS: JsonSchema = {
  totalCount: whole("How many records match."),
  count: whole("How many records this answer contains."),
  limit: whole("The page size that was applied."),
  offset: whole("The position of the first record in the whole list."),
  offSet: whole("Another spelling of offset."),
  searchParams: { type: "object", description: "The parameters as the service understood them." },
};
