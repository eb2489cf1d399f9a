// Makes and updates elements. Text is always set as text, so nothing that a caller sent can become markup.
import { isInstant, titleOf, valueText } from "./format.js";

export const byId = (id) => document.getElementById(id);

/** Makes an element: `h("td.number", { title: "…" }, "12")`. Objects are properties; texts and elements are children. */
export function h(selector, ...parts) {
  const [tag, className] = selector.split(".");
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const part of parts) {
    if (part instanceof Node || typeof part === "string") element.append(part);
    else Object.assign(element, part);
  }
  return element;
}

/** Makes an element show these elements and texts. It changes only what differs, so that focus and selection stay. */
export function show(parent, ...children) {
  const before = [...parent.childNodes];
  children.forEach((given, at) => {
    const [old, child] = [before[at], typeof given === "string" ? new Text(given) : given];
    if (old === undefined) parent.append(child);
    else if (old.isEqualNode(child)) return;
    else if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== child.nodeName) old.replaceWith(child);
    else {
      for (const name of old.getAttributeNames()) if (!child.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of child.attributes) old.setAttribute(name, value);
      show(old, ...child.childNodes);
    }
  });
  for (const old of before.slice(children.length)) old.remove();
}

/** A cell with a note in small print. */
export const cell = (text, note = "", className = "") =>
  h("td", { className }, h("span", text), h("small.note", note));

/** A cell with a number. */
export const number = (text, note, className = "") => cell(text, note, `number ${className}`);

/** Shows items as rows of a table. A column has a title, and a function that makes the cell of an item. */
export function showTable(table, columns, items, empty) {
  if (items.length === 0) return show(table, h("tbody", h("tr", h("td.empty", empty))));
  const rows = items.map((item) => columns.map(([, cellOf]) => cellOf(item)));
  const titles = columns.map(([title], at) =>
    h("th", { scope: "col", className: rows[0][at].classList.contains("number") ? "number" : "" }, title),
  );
  show(table, h("thead", h("tr", ...titles)), h("tbody", ...rows.map((cells) => h("tr", ...cells))));
}

/** Shows objects as rows, with a column for each member. The name of a member determines the format of its values. */
export function showRows(table, items, empty) {
  // The page has no column for `isAnswered`. Only the sentences need it.
  const names = Object.keys(items[0] ?? {}).filter((name) => name !== "isAnswered");
  const columns = names.map((name) => [
    titleOf(name),
    ({ [name]: value }) => {
      const text = valueText(name, value);
      if (name === "query" && value !== null) return h("td", h("a", { href: "#explain" }, text));
      return typeof value === "number" && !isInstant(name) ? number(text) : cell(text, "", name);
    },
  ]);
  showTable(table, columns, items, empty);
}
