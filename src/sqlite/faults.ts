/** Classifies the errors of SQLite. */

/**
 * Primary result codes whose cause is not the content of the file: BUSY, LOCKED, NOMEM, INTERRUPT, IOERR, FULL, PROTOCOL. A
 * file must not be set aside because of these.
 */
const FAULTS_ELSEWHERE: ReadonlySet<number> = new Set([5, 6, 7, 9, 10, 13, 15]);

/** BUSY and LOCKED. */
const IN_USE: ReadonlySet<number> = new Set([5, 6]);

/** @returns whether an operation failed because another process locks the file */
export function isInUse(error: unknown): boolean {
  const code = primaryCodeOf(error);
  return code !== undefined && IN_USE.has(code);
}

/** FULL: the disk is full. IOERR_WRITE: among others, a disk quota is used up. */
const FULL = 13;
const IOERR_WRITE = 778;

/** @returns whether an operation failed because there is no space on the disk */
export function isDiskFull(error: unknown): boolean {
  return primaryCodeOf(error) === FULL || codeOfSqlite(error) === IOERR_WRITE;
}

/** @returns the primary result code of an error from SQLite */
function primaryCodeOf(error: unknown): number | undefined {
  const code = codeOfSqlite(error);
  // The lowest byte of an extended code is the primary code.
  return code === undefined ? undefined : code & 0xff;
}

/** @returns the extended result code of an error from SQLite */
function codeOfSqlite(error: unknown): number | undefined {
  const hasCode = error instanceof Error && "errcode" in error && typeof error.errcode === "number";
  return hasCode ? Number(error.errcode) : undefined;
}

/** @returns whether an operation failed because of the content of the file */
export function isFaultOfContent(error: unknown): boolean {
  const code = primaryCodeOf(error);
  return code !== undefined && !FAULTS_ELSEWHERE.has(code);
}
