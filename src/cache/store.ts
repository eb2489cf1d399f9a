import type { Entry, WhyNotStored } from "../exchange.ts";

/** Where entries are kept. Every implementation passes test/contract/store-contract.ts. */
export interface Store {
  /** The entry of a key, fresh or not; `undefined` where there is none. */
  get(key: string): Promise<Entry | undefined>;
  /** Keeps an entry, unless it is too large or a newer one is there: then what is there stays. */
  set(key: string, entry: Entry): Promise<true | WhyNotStored>;
}
