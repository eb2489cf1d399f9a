import { describe, expect, it } from "vitest";

import { PARAMETERS, type Parameter } from "../../../src/interface/parameters.ts";
import { SEARCH_RESOURCES } from "../../../src/interface/resources.ts";

/** Sections 4.1 to 4.3, copied from the interface by hand: names by the shape of their values. */
const COMMON = {
  text: "q",
  tuple: "center dim bbox",
  idSet: "areaId",
  decimal: "minRooms maxRooms maxRent minLivingArea maxLivingArea minPlotArea maxPlotArea",
  wordSet: "objectType",
  integer: "minConstructionYear maxConstructionYear limit offset",
  date: "minPublished maxPublished",
  switch: "isNewConstruction includeUnset",
};
const DOCUMENTED: Record<keyof typeof PARAMETERS, Record<string, string>> = {
  listings: {
    ...COMMON,
    integer: `${COMMON.integer} minListPrice maxListPrice minListSqmPrice maxListSqmPrice`,
    switch: `${COMMON.switch} priceDecrease`,
  },
  sold: {
    ...COMMON,
    integer: `${COMMON.integer} minSoldPrice maxSoldPrice minSoldSqmPrice maxSoldSqmPrice`,
    date: `${COMMON.date} minSoldDate maxSoldDate`,
  },
  areas: { text: "q", decimal: "lat lng", switch: "listings transactions", integer: "limit" },
};

describe("the tables of parameters", () => {
  it.each(SEARCH_RESOURCES)("have exactly the documented parameters of %s", (resource) => {
    const table: readonly Parameter[] = PARAMETERS[resource];
    const inTable = table.map(({ name, shape }) => `${shape.kind} ${name}`);
    const documented = Object.entries(DOCUMENTED[resource]).flatMap(([kind, names]) =>
      names.split(" ").map((name) => `${kind} ${name}`),
    );
    expect(inTable.toSorted()).toEqual(documented.toSorted());
  });

  it.each(SEARCH_RESOURCES)("refer only to existing parameters of %s", (resource) => {
    const table: readonly Parameter[] = PARAMETERS[resource];
    const leant = table.flatMap(({ onlyWith = [], requires = [] }) => [onlyWith, requires].flat());
    expect(table.map(({ name }) => name)).toEqual(expect.arrayContaining(leant));
  });
});
