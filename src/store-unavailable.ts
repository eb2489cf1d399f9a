/** What is kept outside this process cannot be reached, or is out of order, at present. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}
