// Makes and updates elements. Text is always set as text, so nothing that a caller sent can become markup.

export const byId = (id) => document.getElementById(id);

/** Makes an element. `properties` are set as properties; `children` are elements or texts. */
export function h(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/**
 * Shows a list of items as children of an element. The child of an item stays the same element, so the keyboard's focus
 * and a selection stay.
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

/** Sets the text of an element if it differs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Shows rows in a table.
 * @param columns `title`; `text` of an item; `kind`: "number", "query" or none; `note`: smaller text below
 * @param onQuery called with an item when its query is chosen
 */
export function showTable(table, items, { columns, key, empty, onQuery }) {
  if (table.tHead && table.tHead.rows.length === 0) {
    const cells = columns.map(({ title, kind }) =>
      h("th", { scope: "col", className: kind ?? "", textContent: title }),
    );
    table.tHead.append(h("tr", {}, ...cells));
  }
  table.classList.toggle("is-empty", items.length === 0);
  if (table.tHead) table.tHead.hidden = items.length === 0;
  if (items.length === 0) {
    const cell = h("td", { className: "empty", textContent: empty, colSpan: columns.length });
    if (table.tBodies[0].textContent !== empty) table.tBodies[0].replaceChildren(h("tr", {}, cell));
    return;
  }
  showItems(table.tBodies[0], items, {
    key,
    make: () => h("tr", {}, ...columns.map((column) => makeCell(column, onQuery))),
    update: (row, item) =>
      columns.forEach((column, at) => {
        const cell = row.cells[at];
        cell.item = item;
        setText(cell.querySelector(".text") ?? cell, column.text(item));
        if (column.note) setText(cell.querySelector(".note"), column.note(item));
        if (column.level) cell.dataset.level = column.level(item);
      }),
  });
}

function makeCell({ kind, note }, onQuery) {
  const cell = h("td", { className: kind ?? "" });
  if (kind === "query") {
    const button = h("button", { type: "button", className: "text link", title: "Explain this query" });
    button.addEventListener("click", () => onQuery(cell.item));
    cell.append(button);
  } else if (note) cell.append(h("span", { className: "text" }));
  if (note) cell.append(h("small", { className: "note" }));
  return cell;
}
