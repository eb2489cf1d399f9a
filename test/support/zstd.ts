/** Begins each frame of zstd data (RFC 8878, section 3.1.1). */
const MAGIC = 0xfd2fb528;

/** @returns how many frames the data has; throws if it is not a sequence of whole frames */
export function countFrames(data: Buffer): number {
  let count = 0;
  for (let at = 0; at < data.length; at = frameEnd(data, at)) count++;
  return count;
}

/** @returns where the frame ends that begins at `start` */
export function frameEnd(data: Buffer, start: number): number {
  if (data.readUInt32LE(start) !== MAGIC) throw new Error(`no frame begins at ${start}`);
  const descriptor = data.readUInt8(start + 4);
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const windowBytes = isSingleSegment ? 0 : 1;
  const dictionaryIdBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  const checksumBytes = (descriptor & 4) === 0 ? 0 : 4;
  let at = start + 5 + windowBytes + dictionaryIdBytes + sizeBytes;
  for (;;) {
    const header = data.readUIntLE(at, 3);
    const isRepeatedByte = ((header >> 1) & 3) === 1;
    at += 3 + (isRepeatedByte ? 1 : header >> 3);
    if ((header & 1) === 1) return at + checksumBytes;
  }
}
