/**
 * The map of the data set: Sweden's counties and some of its municipalities.
 */

export interface County {
  readonly name: string;
  readonly latitude: number;
  readonly longitude: number;
  readonly radiusKm: number;
}

export interface Municipality {
  readonly name: string;
  readonly county: string;
  readonly latitude: number;
  readonly longitude: number;
  readonly radiusKm: number;
  /** The relative size of its market. */
  readonly weight: number;
  /** Kronor per square metre of an ordinary flat. */
  readonly sqmPrice: number;
}

type CountyRow = [name: string, latitude: number, longitude: number, radiusKm: number];

const COUNTY_ROWS: readonly CountyRow[] = [
  ["Stockholms län", 59.4, 18.2, 70],
  ["Uppsala län", 60.0, 17.6, 65],
  ["Södermanlands län", 59.0, 16.8, 60],
  ["Östergötlands län", 58.4, 15.7, 75],
  ["Jönköpings län", 57.6, 14.3, 70],
  ["Kronobergs län", 56.8, 14.6, 60],
  ["Kalmar län", 57.2, 16.3, 80],
  ["Gotlands län", 57.5, 18.5, 60],
  ["Blekinge län", 56.2, 15.3, 45],
  ["Skåne län", 55.9, 13.5, 70],
  ["Hallands län", 56.9, 12.7, 65],
  ["Västra Götalands län", 58.2, 12.8, 120],
  ["Värmlands län", 59.8, 13.3, 90],
  ["Örebro län", 59.4, 15.1, 65],
  ["Västmanlands län", 59.7, 16.2, 50],
  ["Dalarnas län", 61.0, 14.6, 120],
  ["Gävleborgs län", 61.3, 16.5, 90],
  ["Västernorrlands län", 62.9, 17.6, 100],
  ["Jämtlands län", 63.2, 14.4, 150],
  ["Västerbottens län", 64.6, 18.3, 170],
  ["Norrbottens län", 66.5, 20.8, 230],
];

type MunicipalityRow = [
  name: string,
  latitude: number,
  longitude: number,
  radiusKm: number,
  weight: number,
  sqmPrice: number,
];

const MUNICIPALITY_ROWS: Record<string, readonly MunicipalityRow[]> = {
  "Stockholms län": [
    ["Stockholm", 59.33, 18.06, 11, 150, 82000],
    ["Nacka", 59.31, 18.2, 8, 80, 62000],
    ["Solna", 59.36, 18.0, 4, 22, 68000],
    ["Sundbyberg", 59.37, 17.96, 3, 14, 62000],
    ["Lidingö", 59.36, 18.14, 5, 12, 65000],
    ["Huddinge", 59.24, 17.98, 8, 22, 45000],
    ["Täby", 59.44, 18.07, 6, 18, 50000],
    ["Järfälla", 59.43, 17.83, 6, 16, 42000],
    ["Tyresö", 59.24, 18.23, 6, 9, 44000],
    ["Värmdö", 59.32, 18.5, 14, 16, 42000],
    ["Haninge", 59.13, 18.2, 13, 18, 36000],
    ["Botkyrka", 59.2, 17.83, 9, 15, 35000],
    ["Sollentuna", 59.43, 17.95, 6, 15, 46000],
    ["Norrtälje", 59.76, 18.7, 25, 20, 26000],
    ["Södertälje", 59.2, 17.63, 12, 16, 30000],
    ["Vallentuna", 59.53, 18.08, 9, 7, 38000],
    ["Österåker", 59.48, 18.3, 9, 9, 41000],
  ],
  "Uppsala län": [
    ["Uppsala", 59.86, 17.64, 16, 40, 38000],
    ["Enköping", 59.64, 17.08, 14, 9, 24000],
    ["Knivsta", 59.73, 17.79, 8, 5, 32000],
    ["Östhammar", 60.26, 18.37, 18, 7, 15000],
  ],
  "Södermanlands län": [
    ["Nyköping", 58.75, 17.01, 16, 12, 24000],
    ["Eskilstuna", 59.37, 16.51, 14, 18, 20000],
    ["Strängnäs", 59.38, 17.03, 12, 10, 26000],
    ["Trosa", 58.9, 17.55, 8, 4, 29000],
  ],
  "Östergötlands län": [
    ["Linköping", 58.41, 15.62, 15, 26, 33000],
    ["Norrköping", 58.59, 16.18, 15, 24, 24000],
    ["Motala", 58.54, 15.04, 13, 7, 16000],
  ],
  "Jönköpings län": [
    ["Jönköping", 57.78, 14.16, 15, 22, 29000],
    ["Värnamo", 57.19, 14.04, 13, 6, 17000],
    ["Nässjö", 57.65, 14.69, 12, 5, 12000],
  ],
  "Kronobergs län": [
    ["Växjö", 56.88, 14.81, 15, 17, 27000],
    ["Ljungby", 56.83, 13.94, 13, 5, 14000],
  ],
  "Kalmar län": [
    ["Kalmar", 56.66, 16.36, 13, 14, 25000],
    ["Västervik", 57.76, 16.64, 18, 9, 14000],
    ["Borgholm", 56.88, 16.66, 16, 8, 24000],
  ],
  "Gotlands län": [["Gotland", 57.64, 18.3, 30, 16, 32000]],
  "Blekinge län": [
    ["Karlskrona", 56.16, 15.59, 14, 11, 18000],
    ["Karlshamn", 56.17, 14.86, 11, 6, 15000],
  ],
  "Skåne län": [
    ["Malmö", 55.6, 13.0, 8, 58, 35000],
    ["Lund", 55.7, 13.19, 10, 24, 39000],
    ["Helsingborg", 56.05, 12.69, 10, 28, 30000],
    ["Kristianstad", 56.03, 14.15, 16, 15, 18000],
    ["Ystad", 55.43, 13.82, 11, 8, 28000],
    ["Simrishamn", 55.56, 14.35, 11, 7, 22000],
    ["Båstad", 56.43, 12.85, 9, 6, 38000],
    ["Ängelholm", 56.24, 12.86, 11, 9, 26000],
    ["Hässleholm", 56.16, 13.77, 15, 8, 12000],
  ],
  "Hallands län": [
    ["Halmstad", 56.67, 12.86, 14, 19, 29000],
    ["Varberg", 57.11, 12.25, 12, 12, 33000],
    ["Kungsbacka", 57.49, 12.08, 11, 13, 37000],
    ["Falkenberg", 56.9, 12.49, 13, 8, 25000],
  ],
  "Västra Götalands län": [
    ["Göteborg", 57.71, 11.97, 12, 100, 52000],
    ["Mölndal", 57.65, 12.02, 6, 11, 42000],
    ["Borås", 57.72, 12.94, 14, 18, 22000],
    ["Trollhättan", 58.28, 12.29, 9, 9, 20000],
    ["Uddevalla", 58.35, 11.94, 12, 9, 19000],
    ["Skövde", 58.39, 13.85, 11, 9, 22000],
    ["Strömstad", 58.94, 11.17, 11, 5, 30000],
    ["Kungälv", 57.87, 11.98, 9, 8, 36000],
    ["Alingsås", 57.93, 12.53, 10, 7, 26000],
    ["Lidköping", 58.5, 13.16, 11, 6, 23000],
    ["Orust", 58.2, 11.66, 10, 5, 27000],
  ],
  "Värmlands län": [
    ["Karlstad", 59.38, 13.5, 14, 15, 26000],
    ["Arvika", 59.65, 12.59, 15, 5, 11000],
    ["Kristinehamn", 59.31, 14.11, 12, 5, 11000],
  ],
  "Örebro län": [
    ["Örebro", 59.27, 15.21, 14, 24, 26000],
    ["Karlskoga", 59.33, 14.52, 9, 5, 11000],
  ],
  "Västmanlands län": [
    ["Västerås", 59.61, 16.55, 13, 26, 26000],
    ["Köping", 59.51, 16.0, 10, 5, 13000],
    ["Sala", 59.92, 16.6, 13, 5, 14000],
  ],
  "Dalarnas län": [
    ["Falun", 60.61, 15.63, 15, 11, 21000],
    ["Borlänge", 60.48, 15.43, 11, 9, 17000],
    ["Mora", 61.0, 14.54, 18, 6, 17000],
    ["Malung-Sälen", 60.69, 13.71, 25, 8, 27000],
  ],
  "Gävleborgs län": [
    ["Gävle", 60.67, 17.14, 15, 17, 21000],
    ["Hudiksvall", 61.73, 17.1, 18, 6, 13000],
    ["Söderhamn", 61.3, 17.06, 14, 5, 9000],
  ],
  "Västernorrlands län": [
    ["Sundsvall", 62.39, 17.31, 17, 15, 18000],
    ["Örnsköldsvik", 63.29, 18.72, 20, 8, 14000],
    ["Härnösand", 62.63, 17.94, 13, 5, 12000],
  ],
  "Jämtlands län": [
    ["Östersund", 63.18, 14.64, 17, 11, 22000],
    ["Åre", 63.4, 13.08, 25, 9, 45000],
    ["Härjedalen", 62.12, 13.2, 35, 6, 21000],
  ],
  "Västerbottens län": [
    ["Umeå", 63.83, 20.26, 17, 18, 28000],
    ["Skellefteå", 64.75, 20.95, 20, 12, 20000],
  ],
  "Norrbottens län": [
    ["Luleå", 65.58, 22.15, 16, 11, 23000],
    ["Kiruna", 67.86, 20.23, 20, 4, 18000],
    ["Piteå", 65.32, 21.48, 15, 6, 16000],
  ],
};

export const COUNTIES: readonly County[] = COUNTY_ROWS.map(([name, latitude, longitude, radiusKm]) => ({
  name,
  latitude,
  longitude,
  radiusKm,
}));

export const MUNICIPALITIES: readonly Municipality[] = Object.entries(MUNICIPALITY_ROWS).flatMap(
  ([county, rows]) =>
    rows.map(([name, latitude, longitude, radiusKm, weight, sqmPrice]) => ({
      name,
      county,
      latitude,
      longitude,
      radiusKm,
      weight,
      sqmPrice,
    })),
);

/** Named areas of the large municipalities. The others use names from `COMMON_NAMED_AREAS`. */
export const NAMED_AREAS: Readonly<Record<string, readonly string[]>> = {
  Stockholm: [
    "Södermalm",
    "Östermalm",
    "Vasastan",
    "Kungsholmen",
    "Gamla stan",
    "Hägersten",
    "Älvsjö",
    "Bromma",
    "Farsta",
    "Enskede",
    "Hammarby Sjöstad",
    "Spånga",
    "Årsta",
    "Bagarmossen",
  ],
  Nacka: ["Sickla", "Nacka Strand", "Saltsjöbaden", "Älta", "Boo", "Orminge", "Fisksätra", "Saltsjö-Duvnäs"],
  Göteborg: ["Majorna", "Linnéstaden", "Hisingen", "Örgryte", "Askim", "Haga", "Kålltorp", "Johanneberg"],
  Malmö: ["Limhamn", "Västra Hamnen", "Möllevången", "Husie", "Slottsstaden", "Rosengård", "Bunkeflostrand"],
  Uppsala: ["Luthagen", "Sunnersta", "Gottsunda", "Kåbo", "Svartbäcken"],
  Solna: ["Råsunda", "Hagalund", "Bergshamra", "Huvudsta"],
  Lund: ["Norra Fäladen", "Klostergården", "Dalby"],
  Helsingborg: ["Råå", "Olympia", "Tågaborg"],
};

export const COMMON_NAMED_AREAS: readonly string[] = [
  "Centrum",
  "Söder",
  "Norr",
  "Öster",
  "Väster",
  "Haga",
  "Berga",
  "Ekeby",
  "Hagaby",
  "Lillån",
  "Sjövik",
  "Björkudden",
  "Kvarnbacken",
  "Ängby",
  "Strandnära",
  "Åkerby",
  "Skogstorp",
  "Västerstad",
];

export const STREET_NAMES: readonly string[] = [
  "Storgatan",
  "Kungsgatan",
  "Drottninggatan",
  "Skolgatan",
  "Kyrkogatan",
  "Järnvägsgatan",
  "Ringvägen",
  "Björkvägen",
  "Ekvägen",
  "Granvägen",
  "Tallvägen",
  "Strandvägen",
  "Sjövägen",
  "Ängsvägen",
  "Parkgatan",
  "Trädgårdsgatan",
  "Nygatan",
  "Östra Långgatan",
  "Västra Hamngatan",
  "Solvägen",
  "Fågelvägen",
  "Lärkvägen",
  "Hantverkargatan",
  "Gamla Värmdövägen",
  "Åsvägen",
  "Havsörnsvägen",
  "Rönnbärsstigen",
  "Smedjegränd",
];
