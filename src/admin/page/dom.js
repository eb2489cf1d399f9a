// Makes and updates elements. Text is always set as text, so nothing that a caller sent can become markup.
import { isInstant, titleOf, valueText } from "./words.js";

export const byId = (id) => document.getElementById(id);

/** Makes an element. `properties` are set as properties; `children` are elements or texts. */
export function h(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Sets the text of an element if it differs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Shows items as children of an element. The child of an item stays the same element, so focus and selection stay.
 * @param key identifies an item
 * @param make makes the element of a new item
 * @param update shows an item in its element
 */
export function showItems(parent, items, { key, make, update }) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const children = items.map((item) => {
    const name = String(key(item));
    const child = before.get(name) ?? make(item);
    child.dataset.key = name;
    update(child, item);
    return child;
  });
  const isSame =
    children.length === parent.children.length &&
    children.every((child, at) => child === parent.children[at]);
  if (!isSame) parent.replaceChildren(...children);
}

/**
 * Shows items as rows of a table.
 * @param columns `[title, kind, text, note, level]`: kind is "number", "query" or ""; text, note and level are functions
 * @param key identifies an item
 * @param empty the text without rows
 * @param onQuery called with the text of a cell of kind "query" that was chosen
 */
export function showTable(table, items, { columns, key, empty, onQuery }) {
  const [head, body] = [table.tHead ?? table.createTHead(), table.tBodies[0] ?? table.createTBody()];
  head.hidden = items.length === 0;
  if (items.length === 0) {
    if (body.textContent !== empty)
      body.replaceChildren(h("tr", {}, h("td", { className: "empty", textContent: empty })));
    return;
  }
  const titles = columns.map(([textContent, className]) => h("th", { scope: "col", className, textContent }));
  if (head.rows.length === 0) head.append(h("tr", {}, ...titles));
  showItems(body, items, {
    key,
    make: () => h("tr", {}, ...columns.map(([, kind]) => makeCell(kind, onQuery))),
    update: (row, item) =>
      columns.forEach(([, kind, text, note, level], at) => {
        const cell = row.cells[at];
        setText(cell.firstChild, text(item));
        setText(cell.lastChild, note?.(item) ?? "");
        cell.className = `${kind} ${level?.(item) ?? ""}`;
      }),
  });
}

/** Shows objects as rows, with a column for each member. The name of a member determines the format of its values. */
export function showRows(table, rows, empty, onQuery) {
  const columns = Object.entries(rows[0] ?? {}).map(([name, value]) => [
    titleOf(name),
    typeof value === "number" && !isInstant(name) ? "number" : name,
    (row) => valueText(name, row[name]),
  ]);
  const isName = (value) => typeof value === "string";
  const key = (row) => Object.values(row).filter(isName).join(" ") + row.status;
  showTable(table, rows, { columns, key, empty, onQuery });
}

function makeCell(kind, onQuery) {
  const note = h("small", { className: "note" });
  if (kind !== "query") return h("td", {}, h("span"), note);
  const button = h("button", { type: "button", className: "link", title: "Explain this query" });
  button.addEventListener("click", () => button.textContent && onQuery(button.textContent));
  return h("td", {}, button, note);
}
