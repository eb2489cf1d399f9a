/** A JPEG of 8 by 8 grey pixels, in two parts. A comment goes between them. */
const FIRST = Buffer.from("/9j/4AAQSkZJRgABAQAAAQABAAA=", "base64");
const REST = Buffer.from(
  "/9sAQwAIAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB/8AAEQgACAAIAwERAAIRA" +
    "AMRAP/EABUAAQEAAAAAAAAAAAAAAAAAAAAH/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAAwDAQACAAMAAD8AoCgKA//Z",
  "base64",
);

/** @param comment at most 250 bytes. It is not visible, but gives each picture different bytes. */
export function jpegWith(comment: string): Buffer {
  const text = Buffer.from(comment);
  return Buffer.concat([FIRST, Buffer.from([0xff, 0xfe, 0, text.length + 2]), text, REST]);
}
